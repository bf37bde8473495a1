//! TwiML: what Twilio is told to do with a call.

/// A whole document.
pub fn document(inside: &str) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Response>{inside}</Response>")
}

/// The call becomes a stream of media, with these parameters; the call ends with it.
pub fn connect<N: AsRef<str>, V: AsRef<str>>(address: &str, params: &[(N, V)]) -> String {
    let mut text = format!("<Connect><Stream url=\"{}\">", escaped(address));
    for (name, value) in params {
        let (name, value) = (escaped(name.as_ref()), escaped(value.as_ref()));
        text += &format!("<Parameter name=\"{name}\" value=\"{value}\"/>");
    }
    text + "</Stream></Connect>"
}

/// The call joins whoever else is in this room, without a sound; it ends when one of them leaves.
/// Who comes in is told at this address.
pub fn join(room: &str, told_at: &str) -> String {
    format!(
        "<Dial><Conference beep=\"false\" waitUrl=\"\" maxParticipants=\"2\" \
         startConferenceOnEnter=\"true\" endConferenceOnExit=\"true\" \
         statusCallbackEvent=\"join\" statusCallbackMethod=\"POST\" statusCallback=\"{}\">{}\
         </Conference></Dial>",
        escaped(told_at),
        escaped(room)
    )
}

/// These words, and the end.
pub fn say(language: &str, words: &str) -> String {
    format!("<Say language=\"{}\">{}</Say>{HANG_UP}", escaped(language), escaped(words))
}

/// The end.
pub const HANG_UP: &str = "<Hangup/>";

/// A busy tone, for a call that has not been answered and costs nothing.
pub const REJECT: &str = "<Reject reason=\"busy\"/>";

/// Text for XML, in an attribute as well; what XML cannot hold is left out.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_sends_stays_text() {
        let params = [("From", "\"/><Say>&\u{1}")];
        assert_eq!(
            connect("wss://voice.example.com/v1/twilio", &params),
            "<Connect><Stream url=\"wss://voice.example.com/v1/twilio\">\
             <Parameter name=\"From\" value=\"&quot;/&gt;&lt;Say&gt;&amp;\"/></Stream></Connect>"
        );
    }
}
