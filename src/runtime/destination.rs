//! Where somebody can be rung, made canonical: a number in E.164 or a SIP address.

/// Fewest and most digits of a number with its country's code (E.164).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;
/// What people put between digits.
const BETWEEN: [char; 6] = [' ', '-', '.', '(', ')', '/'];

/// The destination as it is kept, so that the same one is known again; none when it is none.
pub fn canonical(written: &str) -> Option<String> {
    let written = written.trim();
    let (scheme, rest) = written.split_once(':').unwrap_or(("tel", written));
    match scheme.to_ascii_lowercase().as_str() {
        "tel" => number(rest),
        scheme @ ("sip" | "sips") => address(rest).map(|address| format!("{scheme}:{address}")),
        _ => None,
    }
}

fn number(written: &str) -> Option<String> {
    let digits = written.trim().strip_prefix('+')?;
    let bare: String = digits.chars().filter(|c| !BETWEEN.contains(c)).collect();
    let whole = bare.bytes().all(|c| c.is_ascii_digit())
        && !bare.starts_with('0')
        && DIGITS.contains(&bare.len());
    whole.then(|| format!("+{bare}"))
}

/// `user@host`, the host in lower case; no parameters, no headers, no password.
fn address(written: &str) -> Option<String> {
    let (user, host) = written.split_once('@')?;
    let user_char = |c: char| c.is_ascii_alphanumeric() || "-_.!~*'()&=+$,%".contains(c);
    let host_char = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    let whole = !user.is_empty()
        && !host.is_empty()
        && user.chars().all(user_char)
        && host.chars().all(host_char);
    whole.then(|| format!("{user}@{}", host.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn the_same_destination_is_written_in_one_way() {
        for (written, kept) in [
            ("+1 (555) 555-0100", "+15555550100"),
            ("tel:+15555550100", "+15555550100"),
            (" +49.30/23125000 ", "+493023125000"),
            ("sip:ada@Example.COM", "sip:ada@example.com"),
            ("SIPS:ada@[2001:db8::1]:5061", "sips:ada@[2001:db8::1]:5061"),
        ] {
            assert_eq!(canonical(written).as_deref(), Some(kept), "{written}");
            assert_eq!(canonical(kept).as_deref(), Some(kept), "it stays as it is");
        }
    }

    #[test]
    fn what_is_no_destination_is_none() {
        for written in [
            "",
            "+",
            "5550100",
            "+0555555010",
            "+1555",
            "+1234567890123456",
            "+1555abc0100",
            "sip:",
            "sip:@example.com",
            "sip:ada@",
            "sip:ada@example.com;lr",
            "http://example.com",
            "mailto:a@b",
            "sip:a:secret@example.com",
            "+1\n5555550100\r\nVia: x",
        ] {
            assert_eq!(canonical(written), None, "{written:?}");
        }
    }
}
