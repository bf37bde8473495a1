//! One call: asks for an answer, listens, makes its sound in real time, and takes the times.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::child::Server;
use super::server::{NEXT, WHOLE};
use super::sounds::{FRAME, Kind, RATE_HZ, Sound};

/// A call that takes longer is broken.
const CALL_MAX: Duration = Duration::from_secs(60);
/// The caller lets the agent speak for at least this long.
const LISTENS_AT_LEAST: Duration = Duration::from_millis(1_300);
/// Behind everything the line stays open for so long: nothing more may come.
const SILENCE_BEHIND: Duration = Duration::from_millis(1_200);
/// Loudness of the line's own noise.
const NOISE_PEAK: f32 = 30.0;

/// What came of a call.
#[derive(Debug)]
pub struct Call {
    pub kind: Kind,
    pub name: String,
    pub first_word: Option<Duration>,
    pub stays_loud: Duration,
    /// When the first loud frame was sent, and from there:
    pub loud_at: Option<Duration>,
    pub paused: Option<Duration>,
    pub cleared: Option<Duration>,
    pub resumed: Option<Duration>,
    /// Frames of the interrupted answer that came while it was paused, and behind its clear.
    pub frames_paused: usize,
    pub frames_after: usize,
    /// The interrupted answer came whole after all.
    pub whole: bool,
    /// What followed an interruption came whole.
    pub next_whole: bool,
    /// Turns that were committed, and answers that were begun, behind the first answer.
    pub committed: usize,
    pub answers: usize,
    /// What was understood.
    pub words: String,
    /// How late our own frames were.
    pub sent_late: Vec<Duration>,
    pub complaints: Vec<String>,
}

/// An answer as it comes.
#[derive(Default)]
struct Answer {
    response: String,
    words: String,
    sound: Duration,
    done: Option<String>,
}

struct Line {
    socket: WebSocketStream<TcpStream>,
    start: Instant,
    call: Call,
    answers: Vec<Answer>,
    /// When the first sound of the first answer came.
    audible: Option<Duration>,
    paused: bool,
    last_event: Duration,
}

/// Makes call number `nth` with this sound.
pub async fn call(server: &Server, nth: usize, sound: &Sound) -> Result<Call, String> {
    let of = |problem: String| format!("call {nth} (\"{}\"): {problem}", sound.name);
    let mut line = Line::open(server, sound).await.map_err(of)?;
    let talk = tokio::time::timeout(CALL_MAX, line.talk(nth, sound)).await;
    match talk {
        Err(_) => line.call.complaints.push("it did not end in time".into()),
        Ok(Err(problem)) => line.call.complaints.push(problem),
        Ok(Ok(())) => {}
    }
    // The server may have gone first.
    let _ = line.socket.close(None).await;
    Ok(line.judged())
}

impl Line {
    async fn open(server: &Server, sound: &Sound) -> Result<Line, String> {
        let stream = TcpStream::connect(("127.0.0.1", server.port))
            .await
            .map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let url = format!("ws://127.0.0.1:{}/v1/realtime?model=default", server.port);
        let (socket, _) = client_async(url, stream).await.map_err(|error| error.to_string())?;
        let call = Call {
            kind: sound.kind,
            name: sound.name.clone(),
            first_word: sound.first_word,
            stays_loud: sound.stays_loud,
            loud_at: None,
            paused: None,
            cleared: None,
            resumed: None,
            frames_paused: 0,
            frames_after: 0,
            whole: false,
            next_whole: false,
            committed: 0,
            answers: 0,
            words: String::new(),
            sent_late: Vec::new(),
            complaints: Vec::new(),
        };
        let (start, answers) = (Instant::now(), Vec::new());
        let (audible, paused, last_event) = (None, false, Duration::ZERO);
        Ok(Line { socket, start, call, answers, audible, paused, last_event })
    }

    async fn say(&mut self, event: Value) -> Result<(), String> {
        self.socket.send(Message::text(event.to_string())).await.map_err(|error| error.to_string())
    }

    async fn ask(&mut self, kind: Kind) -> Result<(), String> {
        self.say(json!({"type": "session.update", "session": {
            "type": "realtime", "floorkeeper": {"events": true},
            "audio": {"input": {"transcription": {"model": "default"}}},
        }}))
        .await?;
        // The scripted answers go by the caller's turns: what is not to be interrupted is the
        // third.
        for _ in 0..if kind.interrupts() { 1 } else { 3 } {
            let content = json!([{"type": "input_text", "text": "Tell me a story."}]);
            let item = json!({"type": "message", "role": "user", "content": content});
            self.say(json!({"type": "conversation.item.create", "item": item})).await?;
        }
        self.say(json!({"type": "response.create"})).await
    }

    async fn talk(&mut self, nth: usize, sound: &Sound) -> Result<(), String> {
        self.ask(sound.kind).await?;
        let listens = LISTENS_AT_LEAST + Duration::from_millis(nth as u64 * 271 % 1_400);
        let mut frames = sound.samples.chunks(FRAME);
        let mut noise = nth as u32 + 1;
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            tokio::select! {
                message = self.socket.next() => match message {
                    Some(Ok(Message::Text(text))) => self.hear(&text)?,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => {
                        return Err("the server closed the call".into());
                    }
                    Some(Ok(_)) => {}
                },
                due = ticks.tick() => {
                    let speaks = self.audible.is_some_and(|at| self.now() >= at + listens);
                    let frame = if speaks { frames.next() } else { None };
                    self.call.sent_late.push(Instant::now().saturating_duration_since(due));
                    self.send_frame(frame, &mut noise).await?;
                    if self.is_over() {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn send_frame(&mut self, said: Option<&[i16]>, noise: &mut u32) -> Result<(), String> {
        let mut bytes = Vec::with_capacity(FRAME * 2);
        for at in 0..FRAME {
            *noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hiss = ((*noise >> 16) as f32 / 32_768.0 - 1.0) * NOISE_PEAK;
            let voice = said.and_then(|frame| frame.get(at)).map_or(0.0, |s| f32::from(*s));
            let sample = (voice + hiss).clamp(-32_768.0, 32_767.0) as i16;
            bytes.extend(sample.to_le_bytes());
        }
        let audio = BASE64.encode(bytes);
        if said.is_some() && self.call.loud_at.is_none() {
            // A sound begins with its first loud frame.
            self.call.loud_at = Some(self.now());
        }
        self.say(json!({"type": "input_audio_buffer.append", "audio": audio})).await
    }

    /// Everything that may follow has followed.
    fn is_over(&self) -> bool {
        let Some(loud_at) = self.call.loud_at else { return false };
        let done = |nth: usize| self.answers.get(nth).is_some_and(|a| a.done.is_some());
        let cleared = self.call.cleared.is_some();
        let awaited =
            if cleared { done(self.answers.len().saturating_sub(1).max(1)) } else { done(0) };
        let all_done = self.answers.iter().all(|answer| answer.done.is_some());
        let still = self.now() - self.last_event.max(loud_at) > SILENCE_BEHIND;
        awaited && all_done && still
    }

    fn hear(&mut self, text: &str) -> Result<(), String> {
        let event: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let now = self.now();
        let kind = event["type"].as_str().unwrap_or_default();
        if kind != "input_audio_buffer.cleared" {
            self.last_event = now;
        }
        let since = self.call.loud_at.map(|at| now - at);
        match kind {
            "response.created" => {
                let response = text_of(&event["response"]["id"]);
                self.call.answers += usize::from(!self.answers.is_empty());
                self.answers.push(Answer { response, ..Answer::default() });
            }
            "response.output_audio.delta" => self.sound(&event, now),
            "response.output_audio_transcript.delta" => {
                let words = text_of(&event["delta"]);
                if let Some(answer) = self.answer(&event["response_id"]) {
                    answer.words.push_str(&words);
                }
            }
            "response.done" => {
                let status = text_of(&event["response"]["status"]);
                if let Some(answer) = self.answer(&event["response"]["id"]) {
                    answer.done = Some(status);
                }
            }
            "floorkeeper.playout" => match event["state"].as_str().unwrap_or_default() {
                "paused" => {
                    self.paused = true;
                    self.call.paused = self.call.paused.or(since);
                }
                "resumed" => {
                    self.paused = false;
                    self.call.resumed = self.call.resumed.or(since);
                }
                "cleared" => self.call.cleared = self.call.cleared.or(since),
                _ => {}
            },
            "input_audio_buffer.committed" => self.call.committed += 1,
            "conversation.item.input_audio_transcription.completed" => {
                self.call.words.push_str(event["transcript"].as_str().unwrap_or_default());
            }
            "error" => self.call.complaints.push(text_of(&event["error"]["message"])),
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, response: &Value) -> Option<&mut Answer> {
        let response = response.as_str()?;
        self.answers.iter_mut().find(|answer| answer.response == response)
    }

    fn sound(&mut self, event: &Value, now: Duration) {
        let base64 = event["delta"].as_str().unwrap_or_default();
        let samples = BASE64.decode(base64).map_or(0, |bytes| bytes.len() / 2);
        self.audible = self.audible.or(Some(now));
        let first = self.answers.first().map(|answer| answer.response.clone());
        if first.is_some_and(|response| event["response_id"] == *response) {
            let cleared = self.call.cleared.is_some();
            self.call.frames_after += usize::from(cleared);
            self.call.frames_paused += usize::from(self.paused && !cleared);
        }
        if let Some(answer) = self.answer(&event["response_id"]) {
            answer.sound += Duration::from_secs_f64(samples as f64 / f64::from(RATE_HZ));
        }
    }

    fn judged(mut self) -> Call {
        let whole = |answer: Option<&Answer>, words: &str| {
            answer.is_some_and(|answer| {
                let said: Vec<&str> = answer.words.split_whitespace().collect();
                let least = Duration::from_millis(words.split_whitespace().count() as u64 * 200);
                answer.done.as_deref() == Some("completed")
                    && said == words.split_whitespace().collect::<Vec<_>>()
                    && answer.sound >= least
            })
        };
        self.call.whole = whole(self.answers.first(), WHOLE);
        // An utterance with a pause in it may be two turns: the answer is the one to the last.
        let next = self.answers.iter().skip(1).next_back();
        self.call.next_whole = whole(next, NEXT) || whole(next, WHOLE);
        self.call
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Call {
    /// What had to come whole has: the answer behind an interruption, or the one that had to go on.
    pub fn came_whole(&self) -> bool {
        if self.kind.interrupts() { self.next_whole } else { self.whole }
    }

    /// The call in a line.
    pub fn line(&self) -> String {
        let ms =
            |span: Option<Duration>| span.map_or("-".to_owned(), |s| s.as_millis().to_string());
        format!(
            "{:<10} paused {:>4} ms, resumed {:>4} ms, cleared {:>4} ms (first word {:>4} ms), frames \
             {}/{}, turns {}, {} \"{}\" -> \"{}\" {}",
            self.kind.name(),
            ms(self.paused),
            ms(self.resumed),
            ms(self.cleared),
            ms(self.first_word),
            self.frames_paused,
            self.frames_after,
            self.committed,
            if self.came_whole() { "whole" } else { "NOT WHOLE" },
            self.name,
            self.words,
            self.complaints.join("; ")
        )
    }
}
