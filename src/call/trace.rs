//! A call's story as lines that a newcomer can read: the same in virtual and in real time.
//!
//! `<-` is what happened, `->` what was done about it. Frames of sound are told by their first one.

use std::fmt::Write as _;

use super::{Action, Arranged, Event};
use crate::leg::{FromCaller, Modality, PlayoutState, ResponseEnd, ToCaller};

/// The line for an event, or `None` for what happens all the time.
pub fn event(event: &Event) -> Option<String> {
    Some(match event {
        Event::Connected => "<- connected".into(),
        Event::Caller(said) => return caller(said),
        Event::Commit { buffered, .. } => format!("<- commit of {} ms", buffered.as_millis()),
        Event::Speech { .. } | Event::Timeout | Event::Wrote { .. } => return None,
        Event::Sounded { .. } | Event::PhraseSounded { .. } => return None,
        Event::Recognised { is_final: false, transcript, .. } => {
            format!("<- partial \"{}\"", transcript.text)
        }
        Event::Recognised { transcript, .. } => format!("<- final \"{}\"", transcript.text),
        Event::TurnJudged { probability, .. } => format!("<- turn judged {probability:.2}"),
        Event::Wanted { call, .. } => format!("<- model wants {}", call.name),
        Event::Finished { finish, .. } => format!("<- model finished: {finish:?}"),
        Event::ToolReturned { outcome, .. } => format!("<- tool {}", outcome.label()),
        Event::Ended { run, proof, fault } => ended(*run, proof, fault),
        Event::Arranged { what, .. } => format!("<- {}", arranged(what)),
        Event::Granted(lease) => format!("<- granted {}", lease.stage),
        Event::WaitEnded { stage, terminal, .. } => {
            format!("<- wait for {stage} ended: {}", terminal.disposition())
        }
        Event::Drain => "<- drain".into(),
    })
}

fn arranged(what: &Arranged) -> String {
    match what {
        Arranged::Callback(_) => "callback on record".into(),
        Arranged::Acknowledged(_) => "handoff acknowledged".into(),
        Arranged::Connected => "handoff connected".into(),
        Arranged::NotReached(how) => format!("handoff failed: {}", how.label()),
        Arranged::Refused(code) => format!("not arranged: {code}"),
        Arranged::Unknown => "nobody knows whether it is arranged".into(),
    }
}

fn ended(
    run: crate::id::RunId,
    proof: &Result<crate::evidence::Evidence, crate::evidence::Unknown>,
    fault: &Option<crate::fault::Fault>,
) -> String {
    let mut line = match proof {
        Ok(evidence) => format!("<- {run} ended: {evidence}"),
        Err(unknown) => format!("<- {run} unknown: {}", unknown.label()),
    };
    if let Some(fault) = fault {
        let _ = write!(line, ", {}", fault.label());
    }
    line
}

fn caller(said: &FromCaller) -> Option<String> {
    Some(match said {
        FromCaller::Audio(_) | FromCaller::Heard { .. } => return None,
        FromCaller::Configure(_) => "<- configure".into(),
        FromCaller::CommitAudio { .. } => "<- commit".into(),
        FromCaller::ClearAudio => "<- clear audio".into(),
        FromCaller::AddItem { .. } => "<- add item".into(),
        FromCaller::DeleteItem { .. } => "<- delete item".into(),
        FromCaller::RetrieveItem { .. } => "<- retrieve item".into(),
        FromCaller::Truncate { played, .. } => format!("<- truncate at {} ms", played.as_millis()),
        FromCaller::Respond { .. } => "<- respond".into(),
        FromCaller::Cancel { .. } => "<- cancel".into(),
        FromCaller::Dtmf(key) => format!("<- key {key}"),
        FromCaller::Lost { how, .. } => format!("<- connection lost: {how}"),
        FromCaller::Back => "<- caller is back".into(),
        FromCaller::Gone { how } => format!("<- caller gone: {how}"),
    })
}

/// The line for an action, or `None` for what is done all the time.
pub fn action(action: &Action) -> Option<String> {
    Some(match action {
        Action::Tell(what) => return told(what),
        Action::Fence { from, to, why } => format!("-> fence {from} -> {to}: {why}"),
        Action::Recognise { run, .. } => format!("-> recognise {run}"),
        Action::Decode { is_final, .. } => {
            format!("-> ask for words ({})", if *is_final { "final" } else { "partial" })
        }
        Action::JudgeTurn { .. } => "-> ask whether the turn is over".into(),
        Action::Think { run, request } => {
            format!("-> think {run}: {} messages", request.history.len())
        }
        Action::Arrange { run, wish } => format!("-> arrange {} {run}", wish.rung),
        Action::Voice { run, .. } => format!("-> voice {run}"),
        Action::Say { run, phrase, text } => format!("-> say {run} #{phrase} \"{}\"", text.trim()),
        Action::UseTool { run, .. } => format!("-> use tool {run}"),
        Action::Prompt { run, prompt } => format!("-> prompt {run} {prompt}"),
        Action::Close { run } => format!("-> close {run}"),
        Action::Cancel { run, .. } => format!("-> cancel {run}"),
        Action::ForgetSound => return None,
    })
}

fn told(what: &ToCaller) -> Option<String> {
    Some(match what {
        ToCaller::Audio { .. } | ToCaller::ItemAdded { .. } | ToCaller::Text { .. } => return None,
        ToCaller::SpeechStarted { .. } => "-> speech started".into(),
        ToCaller::SpeechStopped { .. } => "-> speech stopped".into(),
        ToCaller::IdleTimeout { .. } => "-> idle timeout".into(),
        ToCaller::Committed { .. } => "-> committed".into(),
        ToCaller::AudioCleared => "-> audio cleared".into(),
        ToCaller::Transcribed { transcript, .. } => {
            format!("-> transcribed \"{}\"", transcript.text)
        }
        ToCaller::TranscriptionFailed { code, .. } => format!("-> transcription failed: {code}"),
        ToCaller::ResponseStarted(head) => format!("-> {} starts", head.response),
        ToCaller::MessageStarted { response, modality: Modality::Audio, .. } => {
            format!("-> {response} is audible")
        }
        ToCaller::MessageStarted { response, modality: Modality::Text, .. } => {
            format!("-> {response} is being written")
        }
        ToCaller::MessageEnded { completed, .. } => {
            format!("-> message {}", if *completed { "whole" } else { "cut" })
        }
        ToCaller::FunctionCalled { call, .. } => format!("-> client runs {}", call.name),
        ToCaller::ResponseEnded { response, end, .. } => {
            format!("-> {response} ended: {}", response_end(end))
        }
        ToCaller::Heard { played, words, .. } => {
            format!("-> heard {} ms: \"{words}\"", played.as_millis())
        }
        ToCaller::Truncated { played, .. } => format!("-> truncated at {} ms", played.as_millis()),
        ToCaller::Retrieved(_) => "-> item".into(),
        ToCaller::Deleted { .. } => "-> item deleted".into(),
        ToCaller::Rejected { code, .. } => format!("-> rejected: {code}"),
        ToCaller::ClearFarEnd { played, .. } => {
            format!("-> clear far end, heard {} ms", played.as_millis())
        }
        ToCaller::Playout { state, played, .. } => match state {
            PlayoutState::Paused => format!("-> pause playout at {} ms", played.as_millis()),
            PlayoutState::Resumed => format!("-> resume playout at {} ms", played.as_millis()),
            PlayoutState::Cleared => return None,
        },
        ToCaller::Admission(note) if note.reason.is_empty() => {
            format!("-- {}: {}", note.gate, note.disposition)
        }
        ToCaller::Admission(note) => {
            format!("-- {}: {}{{{}}}", note.gate, note.disposition, note.reason)
        }
        ToCaller::Turn { turn, state, generation } => {
            format!("-> {turn} {state} (generation {generation})")
        }
        ToCaller::LateOutput { stage, generation } => {
            format!("-> late output of generation {generation} suppressed at {stage}")
        }
        ToCaller::Fallback { rung, outcome, prompt } => {
            format!("-> fallback {rung} {outcome}: {prompt}")
        }
        // What two people press is theirs.
        ToCaller::Key(_) => return None,
        ToCaller::HangUp { why } => format!("-> hang up: {}", why.label()),
    })
}

fn response_end(end: &ResponseEnd) -> &'static str {
    match end {
        ResponseEnd::Completed => "completed",
        ResponseEnd::TurnDetected => "cancelled by the caller's speech",
        ResponseEnd::ClientCancelled => "cancelled by the client",
        ResponseEnd::MaxTokens => "incomplete: token limit",
        ResponseEnd::ContentFilter => "incomplete: content filter",
        ResponseEnd::Failed { code, .. } => code,
    }
}
