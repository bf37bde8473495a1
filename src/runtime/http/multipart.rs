//! `multipart/form-data` as forms of a few texts use it (RFC 7578), from a body that is there.

use std::collections::BTreeMap;

/// Parts that a form may have.
const PARTS_MAX: usize = 16;

/// The boundary that a content type names; `None` for another kind of body.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let named = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    });
    named.filter(|boundary| !boundary.is_empty() && boundary.len() <= 70)
}

/// Every part's text by its name; `None` where the body is no such form.
pub(super) fn texts<'b>(body: &'b str, boundary: &str) -> Option<BTreeMap<&'b str, &'b str>> {
    let line = format!("--{boundary}");
    let mut rest = body.strip_prefix(&line).or_else(|| {
        // A preamble is allowed and means nothing.
        body.split_once(&format!("\r\n{line}")).map(|(_, rest)| rest)
    })?;
    let end = format!("\r\n{line}");
    let mut parts = BTreeMap::new();
    while !rest.starts_with("--") {
        if parts.len() == PARTS_MAX {
            return None;
        }
        let part = rest.trim_start_matches([' ', '\t']).strip_prefix("\r\n")?;
        let (part, after) = part.split_once(&end)?;
        let (head, text) = match part.strip_prefix("\r\n") {
            Some(text) => ("", text),
            None => part.split_once("\r\n\r\n")?,
        };
        parts.insert(name(head)?, text);
        rest = after;
    }
    Some(parts)
}

/// The name in a part's `Content-Disposition`.
fn name(head: &str) -> Option<&str> {
    let value = head.split("\r\n").find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    value.split(';').find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case("name").then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browsers_form_is_read() {
        let kind = "multipart/form-data; boundary=----WebKitFormBoundaryx1";
        let body = "------WebKitFormBoundaryx1\r\nContent-Disposition: form-data; name=\"sdp\"\r\n\
                    \r\nv=0\r\no=-\r\n\r\n------WebKitFormBoundaryx1\r\n\
                    Content-Disposition: form-data; name=\"session\"\r\n\
                    Content-Type: application/json\r\n\r\n{\"a\": 1}\r\n\
                    ------WebKitFormBoundaryx1--\r\n";
        let parts = texts(body, boundary(kind).unwrap()).unwrap();
        assert_eq!(parts["sdp"], "v=0\r\no=-\r\n");
        assert_eq!(parts["session"], "{\"a\": 1}");
        assert_eq!(texts(&format!("preamble\r\n{body}"), boundary(kind).unwrap()), Some(parts));
    }

    #[test]
    fn what_is_no_form_is_none() {
        assert_eq!(boundary("application/sdp"), None);
        assert_eq!(boundary("multipart/form-data; charset=x"), None);
        assert_eq!(boundary("Multipart/Form-Data; Boundary=\"a b\""), Some("a b"));
        for body in ["", "--b", "--b\r\n", "--b\r\nx\r\n--b--", "--b\r\nA: b\r\n\r\nx\r\n--b--"] {
            assert_eq!(texts(body, "b"), None, "{body:?}");
        }
        let many = "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nx\r\n".repeat(40);
        assert!(texts(&format!("{many}--b--"), "b").is_some_and(|parts| parts.len() == 1));
    }
}
