//! The control law against scenarios kept as data, and a picture of each
//! (`fixtures/admission/laws`).
//!
//! `FLOORKEEPER_BLESS=1` writes the pictures anew.

use std::fmt::Write;
use std::path::Path;

use floorkeeper::admission::adaptive::{Adaptive, Judged, Law, Sign};
use floorkeeper::admission::limits::Slots;
use floorkeeper::time::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    about: String,
    configured: u32,
    ttft_target_ms: Option<u64>,
    knee: Option<Knee>,
    phase: Vec<Phase>,
    expect: Vec<Expect>,
}

/// Above `at` every unit more makes the first token later.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Knee {
    at: u32,
    base_ms: u64,
    slope_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phase {
    from_s: u64,
    to_s: u64,
    every_s: u64,
    waiting: Option<u32>,
    first_token_ms: Option<u64>,
    #[serde(default)]
    pushed_back: bool,
    #[serde(default = "yes")]
    reached: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    at_s: u64,
    ceiling: [u32; 2],
    why: Option<String>,
    stance: Option<String>,
}

fn run(scenario: &Scenario) -> Vec<Judged> {
    let law = Law { ttft_target_ms: scenario.ttft_target_ms, ..Law::default() };
    let mut adaptive = Adaptive::new(law);
    let mut ceiling = scenario.configured;
    let end_s = scenario.expect.iter().map(|expect| expect.at_s).max().unwrap();
    let mut course = Vec::new();
    for second in 0..=end_s {
        let now = Timestamp::from_millis(1_000 * second);
        let mut reached = true;
        let phases = scenario.phase.iter().filter(|p| (p.from_s..p.to_s).contains(&second));
        for phase in phases {
            reached &= phase.reached;
            if (second - phase.from_s) % phase.every_s != 0 {
                continue;
            }
            if let Some(waiting) = phase.waiting {
                adaptive.saw(now, 0, Sign::Waiting(waiting));
            }
            if let Some(ms) = phase.first_token_ms {
                adaptive.saw(now, 0, Sign::FirstToken { ms });
            }
            if phase.pushed_back {
                adaptive.saw(now, 0, Sign::PushedBack);
            }
            if let Some(knee) = &scenario.knee {
                let above = u64::from(ceiling.saturating_sub(knee.at));
                let ms = knee.base_ms + above * knee.slope_ms;
                adaptive.saw(now, 0, Sign::FirstToken { ms });
            }
        }
        let units = Slots::Units(scenario.configured);
        ceiling = adaptive.judge(now, units, reached).expect("a number is configured");
        course.push(adaptive.last().unwrap());
    }
    course
}

fn check(name: &str, scenario: &Scenario, course: &[Judged]) {
    for expect in &scenario.expect {
        let judged = &course[expect.at_s as usize];
        let [least, most] = expect.ceiling;
        let at = format!("{name} at {} s: {judged:?}", expect.at_s);
        assert!((least..=most).contains(&judged.to), "{at}, want {least}..={most}");
        assert_eq!(judged.why.label(), expect.why.as_deref().unwrap_or(judged.why.label()), "{at}");
        let stance = judged.stance.label();
        assert_eq!(stance, expect.stance.as_deref().unwrap_or(stance), "{at}");
    }
    let floor = (scenario.configured / 4).max(1);
    for judged in course {
        assert!((floor..=scenario.configured).contains(&judged.to), "{name}: {judged:?}");
        let cut = (judged.from * 4 / 5).max(floor);
        let steps = [judged.from, judged.from + 1, cut];
        assert!(steps.contains(&judged.to), "{name}: a step the law does not know: {judged:?}");
    }
}

/// The ceiling over time, two pixels a second.
fn picture(scenario: &Scenario, course: &[Judged]) -> String {
    let (width, height) = (2 * course.len() + 40, 160);
    let y = |units: u32| {
        height as f64 - 20.0 - 120.0 * f64::from(units) / f64::from(scenario.configured)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"9\">\n<title>{}</title>\n",
        scenario.about
    );
    for (label, units) in
        [("all", scenario.configured), ("a quarter", (scenario.configured / 4).max(1))]
    {
        let y = y(units);
        let right = width - 4;
        writeln!(svg, "<path d=\"M30 {y:.1}H{right}\" stroke=\"#bbb\" stroke-dasharray=\"3\"/>")
            .unwrap();
        writeln!(svg, "<text x=\"2\" y=\"{:.1}\">{units}</text><!-- {label} -->", y + 3.0).unwrap();
    }
    let mut line = String::new();
    for (second, judged) in course.iter().enumerate() {
        let (letter, x) = (if second == 0 { 'M' } else { 'L' }, 30 + 2 * second);
        write!(line, "{letter}{x} {:.1}", y(judged.to)).unwrap();
    }
    writeln!(svg, "<path d=\"{line}\" fill=\"none\" stroke=\"#06c\"/>").unwrap();
    for second in (0..course.len()).step_by(60) {
        let x = 30 + 2 * second;
        writeln!(svg, "<text x=\"{x}\" y=\"{}\">{second} s</text>", height - 6).unwrap();
    }
    svg + "</svg>\n"
}

/// B-045…B-056.
#[test]
fn every_scenario_keeps_to_its_ranges_and_looks_like_its_picture() {
    let folder = Path::new("fixtures/admission/laws");
    let mut seen = 0;
    for name in ["flapping", "idle", "knee", "provider_429", "stale"] {
        let text = std::fs::read_to_string(folder.join(name).with_extension("toml")).unwrap();
        let scenario: Scenario = toml::from_str(&text).unwrap();
        let course = run(&scenario);
        check(name, &scenario, &course);
        let (path, drawn) = (folder.join(name).with_extension("svg"), picture(&scenario, &course));
        if std::env::var_os("FLOORKEEPER_BLESS").is_some() {
            std::fs::write(&path, &drawn).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap() == drawn, "{}", path.display());
        seen += 1;
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2 * seen, "a scenario nobody runs");
}

#[test]
fn without_a_number_there_is_nothing_to_adapt() {
    let mut adaptive = Adaptive::new(Law::default());
    let now = Timestamp::from_millis(5);
    adaptive.saw(now, 0, Sign::PushedBack);
    assert_eq!(adaptive.judge(now, Slots::Unlimited, true), None);
    assert_eq!(adaptive.judge(now, Slots::Units(0), true), None);
    assert_eq!(adaptive.judge(now, Slots::Units(10), true), Some(8));
    adaptive.reset();
    assert_eq!(adaptive.judge(now, Slots::Units(10), true), Some(10));
}

/// B-047.
#[test]
fn one_endpoint_that_waits_cuts_for_all() {
    let mut adaptive = Adaptive::new(Law::default());
    let now = Timestamp::from_millis(1);
    for endpoint in 0..200 {
        adaptive.saw(now, endpoint, Sign::Waiting(u32::from(endpoint == 3)));
    }
    assert_eq!(adaptive.judge(now, Slots::Units(10), true), Some(8));
}
