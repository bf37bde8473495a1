//! `--report out.html`: every call as one picture, with its story below it.
//!
//! The page is made from a call's trace alone, so that a fixture in virtual time and the record of
//! a real call look the same. It needs nothing beside itself: no script, no font, no network.

mod draw;
mod story;

use std::fmt::Write as _;

use self::story::Story;

/// One call on the page.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it shows.
    pub about: &'a str,
    /// Its story, line by line.
    pub trace: &'a str,
    /// What is not as it must be.
    pub problems: &'a [String],
}

const STYLE: &str = include_str!("report/style.css");

/// The whole page.
pub fn page(calls: &[Shown<'_>]) -> String {
    let mut page = String::new();
    let failed = calls.iter().filter(|call| !call.problems.is_empty()).count();
    // Writing to a string does not fail, here and below.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Floorkeeper: {} calls</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{} calls, {failed} failed</h1>{}</header>\n",
        calls.len(),
        calls.len(),
        draw::legend(),
    );
    for call in calls {
        section(&mut page, call);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn section(page: &mut String, call: &Shown<'_>) {
    let story = Story::of(call.trace);
    let verdict = if call.problems.is_empty() { "passed" } else { "failed" };
    let _ = write!(
        page,
        "<section class=\"{verdict}\">\n<h2>{} <small>{verdict}</small></h2>\n<p>{}</p>\n",
        escaped(call.name),
        escaped(call.about)
    );
    if !call.problems.is_empty() {
        page.push_str("<ul class=\"problems\">\n");
        for problem in call.problems {
            let _ = writeln!(page, "<li>{}</li>", escaped(problem));
        }
        page.push_str("</ul>\n");
    }
    let _ = write!(
        page,
        "<div class=\"picture\" tabindex=\"0\">\n{}</div>\n\
         <details><summary>The story, line by line</summary>\n<pre>{}</pre></details>\n</section>\n",
        draw::picture(call.name, &story),
        escaped(call.trace)
    );
}

/// Text that means nothing to a browser.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_say_is_text_and_no_markup() {
        let trace = "     0ms  <- caller says \"<script>alert(1)</script> & more\"\n";
        let problems = ["a <b> problem".to_owned()];
        let shown = Shown { name: "<x>", about: "\"y\"", trace, problems: &problems };
        let page = page(&[shown]);
        assert!(!page.contains("<script") && !page.contains("<x>") && !page.contains("<b>"));
        assert!(page.contains("&lt;script&gt;"), "{page}");
        assert!(page.contains("<h1>1 calls, 1 failed</h1>"));
    }
}
