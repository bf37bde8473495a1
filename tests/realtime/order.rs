//! The grammar of server events (protocols 1.9): says of each event what is out of order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Watches the events of one session, in the order they were sent.
#[derive(Default)]
pub struct OrderChecker {
    begun: bool,
    event_ids: BTreeSet<String>,
    items: BTreeMap<String, ItemSeen>,
    responses: BTreeMap<String, ResponseSeen>,
    /// The very next event has to be this.
    next: Option<(&'static str, String)>,
    speaking: Option<String>,
    /// Items to be of what the caller said.
    utterances: BTreeSet<String>,
    last_position_ms: u64,
    committed: BTreeMap<String, Value>,
    transcripts: BTreeMap<String, String>,
    /// The response that sounds, where the server plays out.
    pub playing: Option<String>,
}

#[derive(Default)]
struct ItemSeen {
    after: Value,
    done: bool,
    kind: String,
}

#[derive(Default)]
struct ResponseSeen {
    in_band: bool,
    over: bool,
    outputs: Vec<OutputSeen>,
}

struct OutputSeen {
    item: String,
    function: bool,
    call_id: Value,
    part: Option<&'static str>,
    text: String,
    /// `.done` events of the part, in order.
    closed: Vec<&'static str>,
    done: Option<Value>,
}

type Verdict = Result<(), String>;

fn text<'a>(event: &'a Value, key: &str) -> Result<&'a str, String> {
    event[key].as_str().ok_or_else(|| format!("no text at '{key}'"))
}

fn ensure(holds: bool, why: impl Into<String>) -> Verdict {
    if holds { Ok(()) } else { Err(why.into()) }
}

impl OrderChecker {
    /// Takes the next event; an error says what is wrong with it here.
    pub fn see(&mut self, event: &Value) -> Verdict {
        self.judge(event).map_err(|why| format!("{why}\n  at {event}"))
    }

    /// The end of the session: nothing may be half open.
    pub fn finish(&self) -> Verdict {
        ensure(self.begun, "no session.created")?;
        ensure(self.next.is_none(), format!("{:?} never came", self.next))?;
        match self.responses.iter().find(|(_, response)| !response.over) {
            None => Ok(()),
            Some((id, _)) => Err(format!("{id} has no response.done")),
        }
    }

    fn judge(&mut self, event: &Value) -> Verdict {
        let kind = text(event, "type")?.to_owned();
        let id = text(event, "event_id")?.to_owned();
        ensure(self.event_ids.insert(id), "event_id is not unique")?;
        ensure(self.begun != (kind == "session.created"), "session.created is first, and once")?;
        if let Some((wanted, item)) = self.next.take() {
            let item_here = event["item"]["id"].as_str() == Some(&item);
            ensure(kind == wanted && item_here, format!("{wanted} of {item} has to come here"))?;
        }
        match kind.as_str() {
            "session.created" => {
                self.begun = true;
                whole_session(&event["session"])
            }
            "session.updated" => whole_session(&event["session"]),
            "error" => error(&event["error"]),
            kind if kind.starts_with("response.") => self.response_event(kind, event),
            kind if kind.starts_with("input_audio_buffer.") => self.sound_event(kind, event),
            kind if kind.starts_with("conversation.item.") => self.item_event(kind, event),
            kind if kind.starts_with("output_audio_buffer.") => self.playing_event(kind, event),
            kind if kind.starts_with("floorkeeper.") => Ok(()),
            other => Err(format!("no such event: {other}")),
        }
    }

    /// One response sounds at a time, and what began to sound ends.
    fn playing_event(&mut self, kind: &str, event: &Value) -> Verdict {
        let id = text(event, "response_id")?;
        let response = self.responses.get(id).ok_or("no such response")?;
        match kind {
            "output_audio_buffer.started" => {
                ensure(!response.over, "sound of a response behind its end")?;
                ensure(self.playing.replace(id.to_owned()).is_none(), "two responses sound")
            }
            "output_audio_buffer.stopped" | "output_audio_buffer.cleared" => {
                ensure(self.playing.take().as_deref() == Some(id), "another response sounds")
            }
            other => Err(format!("no such event: {other}")),
        }
    }

    fn sound_event(&mut self, kind: &str, event: &Value) -> Verdict {
        let mut position = |key| -> Verdict {
            let at = event[key].as_u64().ok_or_else(|| format!("no position at {key}"))?;
            ensure(at >= self.last_position_ms, "positions go back")?;
            self.last_position_ms = at;
            Ok(())
        };
        match kind {
            "input_audio_buffer.speech_started" => {
                position("audio_start_ms")?;
                ensure(self.speaking.is_none(), "speech started twice")?;
                let item = text(event, "item_id")?.to_owned();
                self.utterances.insert(item.clone());
                self.speaking = Some(item);
            }
            "input_audio_buffer.speech_stopped" => {
                position("audio_end_ms")?;
                let item = text(event, "item_id")?;
                ensure(self.speaking.take().as_deref() == Some(item), "another item stopped")?;
            }
            "input_audio_buffer.timeout_triggered" => {
                ensure(self.speaking.is_none(), "timeout while speaking")?;
            }
            "input_audio_buffer.committed" => {
                let item = text(event, "item_id")?.to_owned();
                // A client that commits in mid-speech gets no speech_stopped (1.6).
                if self.speaking.as_deref() == Some(&item) {
                    self.speaking = None;
                }
                ensure(!self.items.contains_key(&item), "committed after its item was added")?;
                self.committed.insert(item.clone(), event["previous_item_id"].clone());
                self.next = Some(("conversation.item.added", item));
            }
            "input_audio_buffer.cleared" => self.speaking = None,
            other => return Err(format!("no such event: {other}")),
        }
        Ok(())
    }

    fn item_event(&mut self, kind: &str, event: &Value) -> Verdict {
        match kind {
            "conversation.item.added" => self.item_added(event),
            "conversation.item.done" => self.item_done(event),
            "conversation.item.retrieved" => whole_item(&event["item"]),
            "conversation.item.deleted" => {
                let item = text(event, "item_id")?;
                ensure(self.items.remove(item).is_some(), "deleted what was not there")
            }
            "conversation.item.truncated" => {
                let item = self.items.get(text(event, "item_id")?).ok_or("no such item")?;
                ensure(item.done, "truncated before it was done")?;
                ensure(item.kind == "assistant", "truncated what the agent did not say")?;
                ensure(event["audio_end_ms"].is_u64(), "no audio_end_ms")?;
                ensure(event["content_index"] == 0, "content_index is 0")
            }
            _ => self.transcription_event(kind, event),
        }
    }

    fn transcription_event(&mut self, kind: &str, event: &Value) -> Verdict {
        let item = text(event, "item_id")?.to_owned();
        let seen = self.items.get(&item).ok_or("transcript of an item that was not added")?;
        ensure(seen.done, "transcript before the item was done")?;
        ensure(event["content_index"] == 0, "content_index is 0")?;
        match kind.rsplit('.').next() {
            Some("delta") => {
                self.transcripts.entry(item).or_default().push_str(text(event, "delta")?);
                Ok(())
            }
            Some("completed") => {
                ensure(event["usage"]["type"].is_string(), "usage is required")?;
                let deltas = self.transcripts.remove(&item).unwrap_or_default();
                ensure(text(event, "transcript")? == deltas, "the deltas do not add up")
            }
            Some("failed") => {
                let error = event["error"].as_object().ok_or("no error")?;
                ensure(error.values().all(Value::is_string), "T7: a field of error is no string")
            }
            _ => Err(format!("no such event: {kind}")),
        }
    }

    fn item_added(&mut self, event: &Value) -> Verdict {
        let item = &event["item"];
        whole_item(item)?;
        let id = text(item, "id")?.to_owned();
        if let Some(after) = self.committed.get(&id) {
            ensure(*after == event["previous_item_id"], "committed behind another item")?;
        }
        let uncommitted = self.utterances.contains(&id) && !self.committed.contains_key(&id);
        ensure(!uncommitted, "an utterance is committed before it is added")?;
        let in_progress = item["status"] == "in_progress";
        if in_progress {
            let owner = self.responses.values().filter(|response| !response.over);
            let mine = owner.flat_map(|response| &response.outputs).any(|out| out.item == id);
            ensure(mine, "an item in progress belongs to no open response")?;
        } else {
            self.next = Some(("conversation.item.done", id.clone()));
        }
        let role = item["role"].as_str().unwrap_or("none").to_owned();
        let seen = ItemSeen { after: event["previous_item_id"].clone(), done: false, kind: role };
        ensure(self.items.insert(id, seen).is_none(), "item added twice")
    }

    fn item_done(&mut self, event: &Value) -> Verdict {
        let item = &event["item"];
        whole_item(item)?;
        ensure(item["status"] != "in_progress", "done and still in progress")?;
        let id = text(item, "id")?;
        let seen = self.items.get_mut(id).ok_or("done before it was added")?;
        ensure(!seen.done, "item done twice")?;
        ensure(
            seen.after == event["previous_item_id"],
            "another previous_item_id than when added",
        )?;
        seen.done = true;
        let outputs = self.responses.values().filter(|r| !r.over).flat_map(|r| &r.outputs);
        if outputs.into_iter().any(|output| output.item == id) {
            self.next = Some(("response.output_item.done", id.to_owned()));
        }
        Ok(())
    }

    fn response_event(&mut self, kind: &str, event: &Value) -> Verdict {
        match kind {
            "response.created" => self.response_created(&event["response"]),
            "response.done" => self.response_done(&event["response"]),
            _ => {
                let id = text(event, "response_id")?;
                let response = self.responses.get_mut(id).ok_or("no such response")?;
                ensure(!response.over, "something of a response after its response.done")?;
                if kind == "response.output_item.added" {
                    self.next = response.output_added(event)?;
                    return Ok(());
                }
                let index = event["output_index"].as_u64().ok_or("no output_index")? as usize;
                let in_band = response.in_band;
                let output = response.outputs.get_mut(index).ok_or("no such output_index")?;
                if kind == "response.output_item.done" {
                    let item = text(&event["item"], "id")?;
                    let kept = self.items.get(item).is_some_and(|item| item.done);
                    ensure(kept || !in_band, "conversation.item.done comes first")?;
                    return output.item_done(event);
                }
                ensure(event["item_id"] == output.item.as_str(), "item and output_index differ")?;
                ensure(output.done.is_none(), "something of an item after its output_item.done")?;
                output.event(kind, event)
            }
        }
    }

    fn response_created(&mut self, response: &Value) -> Verdict {
        let in_band = response["conversation_id"].is_string();
        ensure(response["status"] == "in_progress", "a new response is in progress")?;
        ensure(response["output"] == serde_json::json!([]), "a new response has no output")?;
        ensure(response["audio"]["output"]["voice"].is_string(), "T4: the voice is a string")?;
        let busy = self.responses.values().any(|other| other.in_band && !other.over);
        ensure(!(busy && in_band), "two responses write to the conversation")?;
        let seen = ResponseSeen { in_band, ..ResponseSeen::default() };
        let id = text(response, "id")?.to_owned();
        ensure(self.responses.insert(id, seen).is_none(), "response created twice")
    }

    fn response_done(&mut self, response: &Value) -> Verdict {
        let seen = self.responses.get_mut(text(response, "id")?).ok_or("no such response")?;
        ensure(!seen.over, "response done twice")?;
        seen.over = true;
        let done: Option<Vec<&Value>> = seen.outputs.iter().map(|out| out.done.as_ref()).collect();
        let done = done.ok_or("an item of it is still open")?;
        let listed = response["output"].as_array().ok_or("no output")?;
        ensure(listed.iter().eq(done), "its output is not what was done, in order")?;
        let details = &response["status_details"];
        match response["status"].as_str() {
            Some("completed") => ensure(details.is_null(), "completed has no details")?,
            Some("cancelled" | "incomplete") => {
                ensure(details["type"] == response["status"], "the details are of another status")?;
                ensure(details["reason"].is_string(), "no reason")?;
            }
            Some("failed") => {
                ensure(details["error"]["type"].is_string(), "no error type")?;
                ensure(details["error"]["code"].is_string(), "no error code")?;
            }
            other => return Err(format!("no such status: {other:?}")),
        }
        ensure(response["usage"]["total_tokens"].is_u64(), "no usage")
    }
}

impl ResponseSeen {
    fn output_added(&mut self, event: &Value) -> Result<Option<(&'static str, String)>, String> {
        let item = &event["item"];
        ensure(item["status"] == "in_progress", "an added output is in progress")?;
        let index = self.outputs.len() as u64;
        ensure(event["output_index"].as_u64() == Some(index), "output indexes count up")?;
        let id = text(item, "id")?.to_owned();
        self.outputs.push(OutputSeen {
            item: id.clone(),
            function: item["type"] == "function_call",
            call_id: item["call_id"].clone(),
            part: None,
            text: String::new(),
            closed: Vec::new(),
            done: None,
        });
        Ok(self.in_band.then_some(("conversation.item.added", id)))
    }
}

impl OutputSeen {
    fn event(&mut self, kind: &str, event: &Value) -> Verdict {
        if kind.starts_with("response.function_call_arguments.") {
            return self.arguments(kind, event);
        }
        ensure(event["content_index"] == 0, "content_index is 0")?;
        match kind {
            "response.content_part.added" => {
                ensure(self.part.is_none(), "two parts")?;
                self.part = Some(match event["part"]["type"].as_str() {
                    Some("audio") => "audio",
                    Some("text") => "text",
                    other => return Err(format!("T3: a part is audio or text, not {other:?}")),
                });
                Ok(())
            }
            "response.output_audio.delta" => {
                self.open("audio", &[])?;
                ensure(!text(event, "delta")?.is_empty(), "an empty delta")
            }
            "response.output_audio_transcript.delta" => self.words("audio", event),
            "response.output_text.delta" => self.words("text", event),
            "response.output_audio.done" => {
                self.open("audio", &[])?;
                self.closed.push("sound");
                Ok(())
            }
            "response.output_audio_transcript.done" => {
                self.open("audio", &["sound"])?;
                self.closed.push("words");
                self.adds_up(&event["transcript"])
            }
            "response.output_text.done" => {
                self.open("text", &[])?;
                self.closed.push("words");
                self.adds_up(&event["text"])
            }
            "response.content_part.done" => {
                ensure(self.closed.last() == Some(&"words"), "the part ends after its words")?;
                self.closed.push("part");
                let part = &event["part"];
                ensure(part["type"].as_str() == self.part, "the part changed its type")?;
                let key = if self.part == Some("audio") { "transcript" } else { "text" };
                self.adds_up(&part[key])
            }
            other => Err(format!("no such event: {other}")),
        }
    }

    fn open(&self, part: &str, closed: &[&str]) -> Verdict {
        ensure(self.part == Some(part), format!("there is no open {part} part"))?;
        ensure(self.closed == closed, format!("comes after {:?}", self.closed))
    }

    fn words(&mut self, part: &str, event: &Value) -> Verdict {
        self.open(part, &[])?;
        self.text.push_str(text(event, "delta")?);
        Ok(())
    }

    fn adds_up(&self, whole: &Value) -> Verdict {
        ensure(whole.as_str() == Some(&self.text), "the deltas do not add up")
    }

    fn arguments(&mut self, kind: &str, event: &Value) -> Verdict {
        ensure(self.function, "arguments of what is no function call")?;
        ensure(event["call_id"] == self.call_id, "another call_id")?;
        ensure(self.closed.is_empty(), "arguments after their end")?;
        if kind.ends_with(".delta") {
            self.text.push_str(text(event, "delta")?);
            return Ok(());
        }
        ensure(event["name"].is_string(), "no name")?;
        self.closed.push("arguments");
        self.adds_up(&event["arguments"])
    }

    fn item_done(&mut self, event: &Value) -> Verdict {
        let item = &event["item"];
        whole_item(item)?;
        ensure(item["id"] == self.item.as_str(), "item and output_index differ")?;
        ensure(self.done.is_none(), "output done twice")?;
        if self.function {
            ensure(self.closed == ["arguments"], "done before its arguments")?;
            self.adds_up(&item["arguments"])?;
        } else {
            ensure(self.closed.last() == Some(&"part"), "done before its part")?;
            let content = &item["content"][0];
            let (kind, key) = match self.part {
                Some("audio") => ("output_audio", "transcript"),
                _ => ("output_text", "text"),
            };
            ensure(content["type"] == kind, "T3: the content's type")?;
            self.adds_up(&content[key])?;
        }
        self.done = Some(item.clone());
        Ok(())
    }
}

fn whole_session(session: &Value) -> Verdict {
    ensure(session["id"].is_string() && session["expires_at"].is_u64(), "no id or expires_at")?;
    let turns = &session["audio"]["input"]["turn_detection"];
    ensure(turns.is_null() || turns["interrupt_response"].is_boolean(), "T6: interrupt_response")?;
    if session["type"] == "realtime" {
        ensure(session["audio"]["output"]["voice"].is_string(), "T4: the voice is a string")?;
    }
    Ok(())
}

fn whole_item(item: &Value) -> Verdict {
    ensure(item["object"] == "realtime.item" && item["id"].is_string(), "no item")?;
    let parts = item["content"].as_array().map_or(&[][..], Vec::as_slice);
    let has_transcript = |part: &Value| part.get("transcript").is_some();
    let sounds = parts.iter().filter(|part| part["type"] == "input_audio");
    ensure(sounds.into_iter().all(has_transcript), "T5: input_audio without transcript")
}

fn error(error: &Value) -> Verdict {
    ensure(
        error["type"].is_string() && error["message"].is_string(),
        "type and message are texts",
    )?;
    ensure(error.get("code").is_some() && error.get("param").is_some(), "code and param are there")
}
