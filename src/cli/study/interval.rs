//! 95 % confidence intervals: Student's t for means, Wilson's for shares.

/// A mean or a share, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean or the share.
    pub middle: f64,
    /// The interval's ends; `None` where one value says nothing of the spread.
    pub ends: Option<(f64, f64)>,
}

/// The normal distribution's two-sided 95 % quantile.
const Z: f64 = 1.959_963_985;
/// Student's two-sided 95 % quantiles for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004,
    2.262_157, 2.228_139, 2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905,
    2.109_816, 2.100_922, 2.093_024, 2.085_963, 2.079_614, 2.073_873, 2.068_658, 2.063_899,
    2.059_539, 2.055_529, 2.051_831, 2.048_407, 2.045_230, 2.042_272,
];

/// Student's quantile: the table, and beyond it the expansion around the normal one, which is right
/// to four digits there.
fn t(freedom: usize) -> f64 {
    match T.get(freedom.wrapping_sub(1)) {
        Some(tabled) => *tabled,
        None => {
            let n = freedom as f64;
            let (z3, z5) = (Z.powi(3), Z.powi(5));
            Z + (z3 + Z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * n * n)
        }
    }
}

/// The mean of values; `None` without any.
pub fn of_mean(values: &[f64]) -> Option<Interval> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let middle = values.iter().sum::<f64>() / n as f64;
    let ends = (n > 1).then(|| {
        let half = t(n - 1) * deviation(values) / (n as f64).sqrt();
        (middle - half, middle + half)
    });
    Some(Interval { middle, ends })
}

/// The standard deviation of a sample; 0 for fewer than two values.
pub fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let middle = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    if n < 2.0 { 0.0 } else { (squares / (n - 1.0)).sqrt() }
}

/// The share of cases that count; `None` without any case.
pub fn of_share(hits: u32, of: u32) -> Option<Interval> {
    if of == 0 {
        return None;
    }
    let (n, middle) = (f64::from(of), f64::from(hits) / f64::from(of));
    let z2 = Z * Z;
    let centre = (middle + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let root = (middle * (1.0 - middle) / n + z2 / (4.0 * n * n)).sqrt();
    let half = Z / (1.0 + z2 / n) * root;
    let low = if hits == 0 { 0.0 } else { centre - half };
    let high = if hits == of { 1.0 } else { centre + half };
    Some(Interval { middle, ends: Some((low, high)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(interval: Option<Interval>, middle: f64, low: f64, high: f64) {
        let interval = interval.unwrap();
        let ends = interval.ends.unwrap();
        let found = [interval.middle, ends.0, ends.1];
        for (found, wanted) in found.iter().zip([middle, low, high]) {
            assert!((found - wanted).abs() < 5e-4, "{found} is not {wanted}");
        }
    }

    /// By hand: mean 30, s = √(1000/4) = 15.811, t(4) = 2.7764, half 2.7764·15.811/√5 = 19.632.
    #[test]
    fn the_mean_of_five_has_students_interval() {
        near(of_mean(&[10.0, 20.0, 30.0, 40.0, 50.0]), 30.0, 10.3676, 49.6324);
    }

    /// By hand: 40 zeros and 40 ones; s = √(20/79) = 0.50316, t(79) = 1.99045, half = 0.11197.
    #[test]
    fn beyond_the_table_the_expansion_goes_on() {
        let values: Vec<f64> = (0..80).map(|n| f64::from(n % 2)).collect();
        near(of_mean(&values), 0.5, 0.388_03, 0.611_97);
        assert!((t(31) - 2.039_513).abs() < 1e-4 && (t(60) - 2.000_298).abs() < 1e-4);
        assert!((t(1_000_000) - Z).abs() < 1e-5);
    }

    /// By hand, n = 20, k = 3: centre (0.15 + 3.8415/40)/(1 + 3.8415/20) = 0.20639, half 0.15403.
    #[test]
    fn a_share_has_wilsons_interval() {
        near(of_share(3, 20), 0.15, 0.052_37, 0.360_42);
        near(of_share(0, 20), 0.0, 0.0, 0.161_13);
        near(of_share(20, 20), 1.0, 0.838_87, 1.0);
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        assert_eq!(of_mean(&[7.0]), Some(Interval { middle: 7.0, ends: None }));
        assert_eq!((of_mean(&[]), of_share(0, 0)), (None, None));
        near(of_mean(&[4.0, 4.0, 4.0]), 4.0, 4.0, 4.0);
    }
}
