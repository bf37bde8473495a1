//! What Twilio's REST API says of a call, in words of ours.

use serde_json::Value;

/// Where a call of Twilio's stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is to be placed, or is being placed.
    Queued,
    /// It rings.
    Ringing,
    /// Somebody or something has answered.
    InProgress,
    /// It was answered, and is over.
    Completed,
    /// The number was busy.
    Busy,
    /// Nobody answered in time.
    NoAnswer,
    /// It could not be placed.
    Failed,
    /// It was taken back while it rang.
    Canceled,
}

const STATUSES: [(&str, Status); 9] = [
    ("queued", Status::Queued),
    ("initiated", Status::Queued),
    ("ringing", Status::Ringing),
    ("in-progress", Status::InProgress),
    ("completed", Status::Completed),
    ("busy", Status::Busy),
    ("no-answer", Status::NoAnswer),
    ("failed", Status::Failed),
    ("canceled", Status::Canceled),
];

impl Status {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Status> {
        STATUSES.iter().find(|(word, _)| *word == name).map(|(_, status)| *status)
    }

    /// Nothing more happens to the call.
    pub fn is_over(self) -> bool {
        !matches!(self, Status::Queued | Status::Ringing | Status::InProgress)
    }
}

/// A call as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub sid: String,
    /// Where it stands.
    pub status: Status,
    /// A machine has answered, where Twilio was asked to tell.
    pub machine: bool,
    /// When it was asked for, in seconds since 1970, where that is told.
    pub made_s: Option<u64>,
}

impl Call {
    /// Reads one; none when it is none.
    pub fn read(value: &Value) -> Option<Call> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Some(Call {
            sid: text("sid")?.to_owned(),
            status: Status::named(text("status")?)?,
            machine: text("answered_by").is_some_and(is_machine),
            made_s: text("date_created").and_then(seconds),
        })
    }

    /// Reads a list of them, the newest first.
    pub fn read_list(value: &Value) -> Option<Vec<Call>> {
        value.get("calls")?.as_array()?.iter().map(Call::read).collect()
    }
}

/// `Tue, 01 Dec 2026 05:00:07 +0000`, which is always of UTC, in seconds since 1970.
fn seconds(date: &str) -> Option<u64> {
    // HTTP writes them so, but for the zone.
    let date = format!("{} GMT", date.strip_suffix(" +0000")?);
    let read = httpdate::parse_http_date(&date).ok()?;
    read.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// `AnsweredBy`: a mailbox, an announcement, a fax; what Twilio does not know may be a person.
pub fn is_machine(answered_by: &str) -> bool {
    answered_by == "fax" || answered_by.starts_with("machine")
}

/// Why the API has refused something, in its words, with its code.
pub fn refusal(status: u16, body: &[u8]) -> String {
    const WORDS_MAX: usize = 300;
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = said.get("code").and_then(Value::as_u64);
    let code = code.map_or_else(|| format!("HTTP {status}"), |code| code.to_string());
    let words = said.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    format!("Twilio {code}: {}", words.chars().take(WORDS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_and_refusals_are_read() {
        let made = "Tue, 01 Dec 2026 05:00:07 +0000";
        let call = json!({"sid": "CA1", "status": "no-answer", "date_created": made});
        let (sid, made_s) = ("CA1".to_owned(), Some(1_796_101_207));
        let read = Call { sid, status: Status::NoAnswer, machine: false, made_s };
        assert_eq!(Call::read(&call), Some(read.clone()));
        assert_eq!(Call::read_list(&json!({"calls": [call]})), Some(vec![read]));
        assert_eq!(Call::read(&json!({"sid": "CA1", "status": "dreaming"})), None);
        let told = json!({"code": 21211, "message": "Invalid 'To' Phone Number", "status": 400});
        let told = refusal(400, told.to_string().as_bytes());
        assert_eq!(told, "Twilio 21211: Invalid 'To' Phone Number");
        assert_eq!(refusal(404, b"<html>"), "Twilio HTTP 404: no reason given");
    }

    /// What `date -u -d` says of them.
    #[test]
    fn dates_are_read() {
        for (date, read) in [
            ("Thu, 01 Jan 1970 00:00:00 +0000", Some(0)),
            ("Thu, 29 Feb 2024 23:59:59 +0000", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 +0000", Some(1_709_251_200)),
            ("Tue, 01 Dec 2026 05:00:07 +0200", None),
            ("yesterday", None),
        ] {
            assert_eq!(seconds(date), read, "{date}");
        }
    }

    #[test]
    fn who_may_be_a_person_is_none_of_the_machines() {
        for (word, machine) in [
            ("human", false),
            ("unknown", false),
            ("", false),
            ("machine_start", true),
            ("machine_end_beep", true),
            ("machine_end_silence", true),
            ("machine_end_other", true),
            ("fax", true),
        ] {
            assert_eq!(is_machine(word), machine, "{word}");
        }
    }
}
