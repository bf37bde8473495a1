//! SIP messages as they are read (RFC 3261, 7 and 25).
//!
//! Whatever comes is either a message, a request that can be told what is wrong with it, or
//! nothing at all. Header fields keep their order; their names are in lower case and in full.

use bytes::Bytes;

/// Largest message; RFC 4475's longest valid one has 3.5 KiB.
pub(super) const MESSAGE_MAX: usize = 32 * 1024;
/// Header fields that one message may have.
const FIELDS_MAX: usize = 256;

/// Longest name and longest value of a field of a peer's own.
const OWN_MAX: usize = 256;

/// The fields' short names (RFC 3261, 7.3.3 and the registry).
const SHORT: [(&str, &str); 13] = [
    ("a", "accept-contact"),
    ("c", "content-type"),
    ("e", "content-encoding"),
    ("f", "from"),
    ("i", "call-id"),
    ("k", "supported"),
    ("l", "content-length"),
    ("m", "contact"),
    ("o", "event"),
    ("r", "refer-to"),
    ("t", "to"),
    ("v", "via"),
    ("x", "session-expires"),
];

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Request(Request),
    Response(Response),
}

/// Somebody wants something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub method: String,
    pub uri: String,
    pub fields: Fields,
    pub body: Bytes,
}

/// Somebody answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub status: u16,
    pub fields: Fields,
    pub body: Bytes,
}

/// A message that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Nothing that could be answered.
    Nothing,
    /// A request that is to be answered so, as far as it could be read.
    Request(Box<Request>, u16),
}

/// The header fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every field of this name, whole.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The values of a field that may have several, in one line or many.
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.all(name).flat_map(split_list).filter(|value| !value.is_empty())
    }

    /// One of the words of a list is this one.
    pub fn lists(&self, name: &str, word: &str) -> bool {
        self.list(name).any(|listed| listed.eq_ignore_ascii_case(word))
    }

    /// Fields that no standard knows (`X-Queue`), as people write their names, and not too long.
    pub fn own(&self) -> impl Iterator<Item = (String, String)> {
        let own = self.0.iter().filter(|(name, value)| {
            name.starts_with("x-") && name.len() <= OWN_MAX && value.len() <= OWN_MAX
        });
        own.map(|(name, value)| (as_written(name), value.clone()))
    }

    /// A field that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(digits)
    }

    /// Number and method of `CSeq`.
    pub fn cseq(&self) -> Option<(u32, &str)> {
        let (number, method) = self.get("cseq")?.split_once([' ', '\t'])?;
        let number = u32::try_from(digits(number)?).ok().filter(|number| *number < 1 << 31)?;
        Some((number, method.trim()))
    }

    /// The tag of `From` or `To`.
    pub fn tag(&self, name: &str) -> Option<&str> {
        param(Address::parse(self.get(name)?)?.params, "tag")
    }
}

/// `x-queue-name` as `X-Queue-Name`.
fn as_written(name: &str) -> String {
    let word = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

/// A number, which has no sign.
fn digits(text: &str) -> Option<u64> {
    let text = text.trim();
    let whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| text.parse().ok())?
}

/// Reads what came as one piece; over a stream the length was known before.
pub(super) fn parse(bytes: &[u8]) -> Result<Message, Wrong> {
    let (head, body) = split_head(bytes).ok_or(Wrong::Nothing)?;
    let head = std::str::from_utf8(head);
    let Ok(head) = head else { return Err(Wrong::Nothing) };
    let (first, rest) = head.split_once('\n').unwrap_or((head, ""));
    let first = first.strip_suffix('\r').unwrap_or(first);
    let (fields, whole) = read_fields(rest);
    if let Some(rest) = first.strip_prefix("SIP/2.0 ") {
        let status = rest.get(..3).and_then(digits).filter(|status| (100..700).contains(status));
        let ends = matches!(rest.as_bytes().get(3), None | Some(b' '));
        return match status.filter(|_| ends && whole) {
            Some(status) => {
                let length = fields.number("content-length").map_or(body.len(), |n| n as usize);
                let body = body.get(..length).unwrap_or(body);
                let (status, body) = (status as u16, Bytes::copy_from_slice(body));
                Ok(Message::Response(Response { status, fields, body }))
            }
            None => Err(Wrong::Nothing),
        };
    }
    let mut request = read_start(first, fields).ok_or(Wrong::Nothing)?;
    let refused =
        |request: &Request, status| Err(Wrong::Request(Box::new(request.clone()), status));
    if !first.ends_with(" SIP/2.0") {
        let status = if first.trim_end().ends_with(" SIP/2.0") { 400 } else { 505 };
        return refused(&request, status);
    }
    let length = match request.fields.get("content-length") {
        None => Some(body.len()),
        Some(_) if request.fields.all("content-length").count() > 1 => None,
        Some(said) => digits(said).and_then(|said| usize::try_from(said).ok()),
    };
    match length.and_then(|length| body.get(..length)).filter(|_| whole) {
        Some(body) => request.body = Bytes::copy_from_slice(body),
        None => return refused(&request, 400),
    }
    match super::check::fault(&request) {
        Some(status) => refused(&request, status),
        None => Ok(Message::Request(request)),
    }
}

/// The length of the message at the beginning of a stream, once its head is there whole; `Err` when
/// the stream has lost its frame.
pub(super) fn length_in_stream(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let Some((head, rest)) = split_head(bytes) else {
        return if bytes.len() > MESSAGE_MAX { Err(()) } else { Ok(None) };
    };
    let head_bytes = bytes.len() - rest.len();
    let text = std::str::from_utf8(head).map_err(drop)?;
    let (fields, _) = read_fields(text.split_once('\n').map_or("", |(_, rest)| rest));
    let lengths: Vec<&str> = fields.all("content-length").collect();
    let body = match lengths[..] {
        [] => Some(0),
        [length] => digits(length),
        _ => None,
    };
    let body = body.and_then(|body| usize::try_from(body).ok());
    let length = body.and_then(|body| body.checked_add(head_bytes)).filter(|it| *it <= MESSAGE_MAX);
    length.map(Some).ok_or(())
}

/// Head and body: the first empty line is between them.
fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let crlf = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| (at, at + 4));
    let lf = bytes.windows(2).position(|two| two == b"\n\n").map(|at| (at, at + 2));
    let (head, body) = match (crlf, lf) {
        (Some(crlf), Some(lf)) => crlf.min(lf),
        (one, other) => one.or(other)?,
    };
    Some((&bytes[..head], &bytes[body..]))
}

/// Method and address; the version was or will be looked at by itself.
fn read_start(line: &str, fields: Fields) -> Option<Request> {
    let (method, rest) = line.split_once(' ')?;
    let (uri, version) = rest.rsplit_once(' ').unwrap_or((rest, ""));
    let is_sip = version.to_ascii_uppercase().starts_with("SIP/") || line.contains("SIP/");
    if !is_sip || method.is_empty() || !method.bytes().all(is_token) {
        return None;
    }
    Some(Request { method: method.to_owned(), uri: uri.to_owned(), fields, body: Bytes::new() })
}

/// The fields, and whether every line was one.
fn read_fields(head: &str) -> (Fields, bool) {
    let (mut fields, mut whole) = (Vec::<(String, String)>::new(), true);
    for line in head.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        // What ends a line elsewhere must not end one in what is written from it.
        whole &= !line.contains('\r');
        let in_one_line = |text: &str| text.trim().replace(['\r', '\0'], " ");
        if line.starts_with([' ', '\t']) {
            match fields.last_mut() {
                Some((_, value)) => {
                    value.push(' ');
                    value.push_str(&in_one_line(line));
                }
                None => whole = false,
            }
            continue;
        }
        let Some((name, value)) = line.split_once(':') else {
            whole = false;
            continue;
        };
        let name = name.trim_end().to_ascii_lowercase();
        if fields.len() == FIELDS_MAX || name.is_empty() || !name.bytes().all(is_token) {
            whole = false;
            continue;
        }
        let long = SHORT.iter().find(|(short, _)| *short == name).map(|(_, long)| *long);
        fields.push((long.map_or(name, str::to_owned), in_one_line(value)));
    }
    (Fields(fields), whole)
}

/// RFC 3261, 25.1.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// Cuts a list at its commas, which count neither in quotes nor in angle brackets.
pub(super) fn split_list(value: &str) -> impl Iterator<Item = &str> {
    split_outside(value, b',')
}

fn split_outside(value: &str, at: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let whole = rest?;
        let (first, behind) = match find_outside(whole, at) {
            Some(place) => (&whole[..place], Some(&whole[place + 1..])),
            None => (whole, None),
        };
        rest = behind;
        Some(first.trim())
    })
}

/// Where this byte stands first outside of quotes and angle brackets.
pub(super) fn find_outside(value: &str, wanted: u8) -> Option<usize> {
    let (mut quoted, mut escaped, mut bracketed) = (false, false, false);
    for (place, byte) in value.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if !bracketed => quoted = !quoted,
            _ if quoted => {}
            byte if byte == wanted && !bracketed => return Some(place),
            b'<' => bracketed = true,
            b'>' => bracketed = false,
            _ => {}
        }
    }
    None
}

/// `From`, `To`, `Contact`, `Route`: an address and what is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// What people read, quotes and all.
    pub name: &'a str,
    pub uri: &'a str,
    /// From the first `;` on.
    pub params: &'a str,
}

impl<'a> Address<'a> {
    pub fn parse(value: &'a str) -> Option<Address<'a>> {
        let value = value.trim();
        if let Some(open) = find_outside(value, b'<') {
            let close = open + value[open..].find('>')?;
            let (name, uri) = (value[..open].trim(), &value[open + 1..close]);
            return Some(Address { name, uri, params: value[close + 1..].trim() });
        }
        // Without brackets all parameters are the field's, and quotes would never end.
        let (uri, params) = value.split_at(value.find(';').unwrap_or(value.len()));
        let uri = uri.trim();
        (!uri.is_empty() && !uri.contains('"')).then_some(Address { name: "", uri, params })
    }
}

/// The value of a parameter; empty where it has none.
pub(super) fn param<'a>(params: &'a str, name: &str) -> Option<&'a str> {
    split_outside(params, b';').find_map(|param| {
        let (key, value) = param.split_once('=').unwrap_or((param, ""));
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Who is behind an address: what stands before its `@`, without a password and unescaped; or, of
/// `tel:`, the number.
pub(super) fn user(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once(':') else { return String::new() };
    let user = if scheme.eq_ignore_ascii_case("tel") {
        rest.split(';').next().unwrap_or_default()
    } else {
        let Some((user, _)) = rest.split_once('@') else { return String::new() };
        user.split([':', ';']).next().unwrap_or_default()
    };
    unescape(user)
}

/// Percent signs and what they stand for; what is no text stays as it is, and nothing that ends a
/// line or a string comes out.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|_| byte == b'%');
        let hex = hex.and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|b| !b.is_ascii_control())
        {
            Some(meant) => {
                bytes.push(meant);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The topmost `Via`: where an answer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Via<'a> {
    pub host: &'a str,
    pub port: Option<u16>,
    pub branch: Option<&'a str>,
    /// The sender wants to be answered where it sent from (RFC 3581).
    pub rport: bool,
}

impl<'a> Via<'a> {
    pub fn parse(value: &'a str) -> Option<Via<'a>> {
        let mut parts = value.splitn(3, '/');
        let (name, version) = (parts.next()?.trim(), parts.next()?.trim());
        if !name.eq_ignore_ascii_case("SIP") || version != "2.0" {
            return None;
        }
        let (transport, rest) = parts.next()?.trim_start().split_once([' ', '\t'])?;
        let (sent_by, params) = rest.split_at(rest.find(';').unwrap_or(rest.len()));
        let (host, port) = host_and_port(sent_by.trim())?;
        let whole = !transport.is_empty() && transport.bytes().all(is_token);
        whole.then_some(Via {
            host,
            port,
            branch: param(params, "branch"),
            rport: param(params, "rport").is_some(),
        })
    }
}

/// A host, and its port where that is said.
pub(super) fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(_) => {
            let end = text.find(']')? + 1;
            (&text[..end], text[end..].trim().strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.trim(), Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(|port| digits(port).and_then(|port| u16::try_from(port).ok()));
    let fine = !host.is_empty()
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b));
    match port {
        Some(None) => None,
        port => fine.then_some((host, port.flatten())),
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
