//! The picture of a call: one lane each for the caller, the agent and every stage, time from left
//! to right, fences across.

use std::fmt::Write as _;

use super::escaped;
use super::story::{Kind, Mark, Span, Story};

const LEFT: f64 = 110.0;
const WIDTH: f64 = 1_000.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const LANE: f64 = 34.0;
const BAR: f64 = 20.0;
/// A letter of a label, about.
const LETTER: f64 = 6.2;
/// Ticks that are pleasant to read, in milliseconds.
const TICKS: [u64; 10] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000];

const KINDS: [(Kind, &str, &str); 10] = [
    (Kind::Speech, "speech", "caller speaks"),
    (Kind::Noise, "noise", "noise"),
    (Kind::Audible, "audible", "agent is heard"),
    (Kind::Prompt, "prompt", "prompt rendered ahead"),
    (Kind::Paused, "paused", "held back"),
    (Kind::Claimed, "claimed", "unit claimed, not used yet"),
    (Kind::Waiting, "waiting", "waits at the gate"),
    (Kind::Working, "working", "works"),
    (Kind::Cleanup, "cleanup", "cancelled, not proven free"),
    (Kind::Quarantined, "quarantined", "unknown"),
];

fn class(kind: Kind) -> &'static str {
    KINDS.iter().find(|(known, ..)| *known == kind).map_or("", |(_, class, _)| class)
}

/// What the colours mean.
pub fn legend() -> String {
    let mut legend = String::from("<ul class=\"legend\">");
    for (_, class, meaning) in KINDS {
        let _ = write!(legend, "<li><i class=\"{class}\"></i>{meaning}</li>");
    }
    legend.push_str("<li><i class=\"fence\"></i>fence: a new generation</li></ul>");
    legend
}

/// Where time lies on the paper.
struct Scale {
    end_ms: u64,
}

impl Scale {
    fn x(&self, at_ms: u64) -> f64 {
        let share = at_ms as f64 / self.end_ms as f64;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }
}

/// The picture as SVG.
pub fn picture(name: &str, story: &Story) -> String {
    let scale = Scale { end_ms: story.end_ms.max(1) };
    let bottom = TOP + LANE * story.lanes.len() as f64;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
        bottom + 22.0,
        escaped(&described(name, story))
    );
    ticks(&mut svg, &scale, bottom);
    for (at, lane) in story.lanes.iter().enumerate() {
        let y = TOP + LANE * at as f64;
        let _ = writeln!(
            svg,
            "<line class=\"base\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{base}\" y2=\"{base}\"/>\
             <text class=\"lane\" x=\"{}\" y=\"{}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + BAR / 2.0 + 4.0,
            escaped(lane),
            base = y + BAR,
        );
        for span in story.spans.iter().filter(|span| span.lane == *lane) {
            bar(&mut svg, &scale, span, y);
        }
    }
    fences(&mut svg, &scale, story, bottom);
    for (at, lane) in story.lanes.iter().enumerate() {
        let y = TOP + LANE * at as f64;
        let own = story.marks.iter().filter(|mark| mark.lane.as_ref() == Some(lane));
        own.for_each(|mark| moment(&mut svg, &scale, mark, y));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The picture in words, for those who cannot see it.
fn described(name: &str, story: &Story) -> String {
    let heard = |kind| story.spans.iter().filter(|span| span.kind == kind).count();
    let fences = story.marks.iter().filter(|mark| mark.lane.is_none()).count();
    format!(
        "{name}: {:.1} s; the caller speaks {} times, the agent is heard {} times, {} prompts, \
         {fences} fences",
        story.end_ms as f64 / 1_000.0,
        heard(Kind::Speech),
        heard(Kind::Audible),
        heard(Kind::Prompt),
    )
}

fn ticks(svg: &mut String, scale: &Scale, bottom: f64) {
    let step = TICKS.iter().find(|step| scale.end_ms / **step <= 16).unwrap_or(&600_000);
    for at_ms in (0..=scale.end_ms).step_by(*step as usize) {
        let x = scale.x(at_ms);
        let _ = writeln!(
            svg,
            "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"time\" x=\"{x:.1}\" y=\"{}\">{} s</text>",
            bottom + 15.0,
            at_ms as f64 / 1_000.0
        );
    }
}

fn bar(svg: &mut String, scale: &Scale, span: &Span, y: f64) {
    let (from, to) = (scale.x(span.from_ms), scale.x(span.to_ms));
    // What is too short to be seen is still shown.
    let width = (to - from).max(1.5);
    let title =
        format!("{} {} {} to {} ms", class(span.kind), span.label, span.from_ms, span.to_ms);
    let _ = write!(
        svg,
        "<rect class=\"{}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" \
         rx=\"2\"><title>{}</title></rect>",
        class(span.kind),
        escaped(&title)
    );
    let label = fitting(&span.label, width - 6.0);
    if !label.is_empty() {
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{}\">{}</text>",
            from + 4.0,
            y + BAR / 2.0 + 4.0,
            escaped(&label)
        );
    }
    svg.push('\n');
}

/// As much of a label as there is room for; nothing rather than a letter or two.
fn fitting(label: &str, room: f64) -> String {
    let letters = (room / LETTER).max(0.0) as usize;
    match label.chars().count() {
        count if count <= letters => label.to_owned(),
        _ if letters < 5 => String::new(),
        _ => label.chars().take(letters - 1).chain(['…']).collect(),
    }
}

/// Fences from top to bottom; their names stand where there is room beside each other.
fn fences(svg: &mut String, scale: &Scale, story: &Story, bottom: f64) {
    let mut free_from = [0.0_f64; 2];
    for mark in story.marks.iter().filter(|mark| mark.lane.is_none()) {
        let x = scale.x(mark.at_ms);
        let _ = write!(
            svg,
            "<line class=\"fence\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\">\
             <title>fence {} at {} ms</title></line>",
            TOP - 6.0,
            escaped(&mark.label),
            mark.at_ms
        );
        let (why, width) = named(&mark.label);
        let x = x.min(WIDTH - RIGHT - width);
        if let Some(row) = free_from.iter().position(|free| *free <= x) {
            free_from[row] = x + width + 8.0;
            let y = 12.0 + 13.0 * row as f64;
            let _ =
                write!(svg, "<text class=\"why\" x=\"{x:.1}\" y=\"{y}\">{}</text>", escaped(&why));
        }
        svg.push('\n');
    }
}

/// Why a fence was made, and how wide that is.
fn named(label: &str) -> (String, f64) {
    let why = label.split(": ").last().unwrap_or(label).to_owned();
    let width = why.chars().count() as f64 * LETTER;
    (why, width)
}

fn moment(svg: &mut String, scale: &Scale, mark: &Mark, y: f64) {
    let x = scale.x(mark.at_ms);
    let (top, low) = (y + BAR + 2.0, y + BAR + 9.0);
    let _ = writeln!(
        svg,
        "<path class=\"mark\" d=\"M{:.1} {low} L{x:.1} {top} L{:.1} {low} Z\"><title>{} at {} \
         ms</title></path>",
        x - 4.0,
        x + 4.0,
        escaped(&mark.label),
        mark.at_ms
    );
    let room = WIDTH - RIGHT - x - 8.0;
    let label = fitting(&mark.label, room.min(150.0));
    if !label.is_empty() && (mark.label.contains('{') || mark.label == "expired") {
        let _ = writeln!(
            svg,
            "<text class=\"refused\" x=\"{:.1}\" y=\"{}\">{}</text>",
            x + 7.0,
            low + 1.0,
            escaped(&label)
        );
    }
}
