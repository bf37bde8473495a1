//! Server-sent events, cut out of a byte stream with bounds.

/// Longest line and longest event.
const LINE_MAX: usize = 64 * 1024;

/// Cuts a byte stream into the data of its events.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
    begun: bool,
}

impl Sse {
    /// Takes more bytes; gives the data of every event that is whole now. An `error:` line, as
    /// llama.cpp writes it, comes out as `{"error":…}`.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|&b| b == b'\n' || b == b'\r') {
            let is_lf_of_crlf = at == 0 && rest[0] == b'\n' && self.after_cr;
            self.extend(&rest[..at])?;
            self.after_cr = rest[at] == b'\r';
            rest = &rest[at + 1..];
            if !is_lf_of_crlf {
                events.extend(self.line_ended()?);
            }
        }
        if !rest.is_empty() {
            self.after_cr = false;
        }
        self.extend(rest)?;
        Ok(events)
    }

    /// The stream is over: what a last event without its blank line says.
    pub fn finish(&mut self) -> Result<Option<String>, String> {
        if !self.line.is_empty()
            && let Some(event) = self.line_ended()?
        {
            return Ok(Some(event));
        }
        Ok(self.data.take())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.line.len() + bytes.len() > LINE_MAX {
            return Err(format!("a line is longer than {LINE_MAX} bytes"));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line_ended(&mut self) -> Result<Option<String>, String> {
        let bytes = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&bytes).map_err(|_| "a line is not UTF-8".to_owned())?;
        let line = if self.begun { line } else { line.trim_start_matches('\u{feff}') };
        self.begun = true;
        if line.is_empty() {
            return Ok(self.data.take());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) if data.len() + value.len() > LINE_MAX => {
                    return Err(format!("an event is longer than {LINE_MAX} bytes"));
                }
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            "error" => return Ok(Some(format!("{{\"error\":{value}}}"))),
            // Comments (keep-alives), `event`, `id` and `retry` carry nothing for us.
            "" | "event" | "id" | "retry" => {}
            _ => {
                let shown: String = field.chars().take(40).collect();
                return Err(format!("\"{shown}\" is no field of an event stream"));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_the_same_however_the_bytes_are_cut() {
        let stream = "\u{feff}: hi\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:two\ndata: lines\n\n: ka\n\ndata: é\r\r";
        for size in 1..stream.len() {
            let mut sse = Sse::default();
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.extend(sse.take(piece).unwrap());
            }
            assert_eq!(events, ["{\"a\":1}", "two\nlines", "é"], "cut every {size}");
        }
    }

    #[test]
    fn what_is_no_event_stream_is_refused() {
        let refused = |bytes: &[u8]| Sse::default().take(bytes).unwrap_err();
        assert!(refused(b"<html><body>\n").contains("no field"));
        assert!(refused(b"data: \xff\xfe\n").contains("UTF-8"));
        assert!(refused(&vec![b'a'; 100_000]).contains("longer than"));
        let many = "data: 0123456789012345678901234567890123456789\n".repeat(3_000);
        assert!(refused(many.as_bytes()).contains("an event is longer"));
    }

    #[test]
    fn a_last_event_without_its_blank_line_counts() {
        let mut sse = Sse::default();
        assert_eq!(sse.take(b"data: [DONE]").unwrap(), Vec::<String>::new());
        assert_eq!(sse.finish().unwrap().as_deref(), Some("[DONE]"));
        assert_eq!(sse.finish().unwrap(), None);
    }
}
