//! Sound in virtual time: what both ends hear, from the script's deeds to the tracks of a call.

use std::path::Path;
use std::sync::Arc;

use floorkeeper::audio::level_dbfs;
use floorkeeper::sim::script::Script;
use floorkeeper::sim::sound::{Bank, craft};
use floorkeeper::sim::tracks::{Staging, Tracks};
use floorkeeper::sim::world::{self, Outcome};

fn staged(text: &str, staging: Staging<'_>) -> Outcome {
    let script = Script::parse("test.toml", text).expect("it is written well");
    let fallback = floorkeeper::config::Script::read(None).expect("the built-in prompts");
    world::stage(&script, Arc::new(fallback), staging).expect("its providers can be made")
}

fn recorded(text: &str, bank: &Bank, seed: u64) -> (Tracks, Outcome) {
    let staging = Staging { seed, record: true, bank: Some(bank) };
    let mut outcome = staged(text, staging);
    assert_eq!(outcome.problems, Vec::<String>::new());
    (outcome.tracks.take().expect("they were asked for"), outcome)
}

/// Milliseconds of the first fact of a name.
fn at(outcome: &Outcome, name: &str) -> usize {
    let fact = outcome.facts.iter().find(|fact| fact.fits(name)).expect(name);
    fact.at.as_millis() as usize
}

/// How loud a track is between two times.
fn level(track: &[i16], from_ms: usize, to_ms: usize) -> f32 {
    level_dbfs(&track[from_ms * 16..to_ms * 16])
}

const STORY: &str = "about = \"a test\"
[llm]
reply = [\"There was a king who had three sons and a garden full of pears.\", \"All right.\"]
[tts]
rate_x = 2
[[caller]]
at = \"0.5s\"
says = \"Tell me a story please\"
";

#[test]
fn both_tracks_are_what_was_sent_and_what_was_played() {
    let text = format!(
        "{STORY}[[caller]]\nafter = \"agent.first_audio + 1s\"\nsays = \"Wait, stop that now\"\n"
    );
    let (tracks, outcome) = recorded(&text, &Bank::default(), 0);
    let Tracks { rate_hz, caller, agent } = &tracks;
    assert_eq!((*rate_hz, caller.len()), (16_000, agent.len()));
    let last = outcome.facts.last().expect("facts").at.as_millis() as usize;
    assert!((last..=last + 20).contains(&(caller.len() / 16)), "{} for {last} ms", caller.len());
    // The caller: silent until their words, for as long as those take.
    assert_eq!(level(caller, 0, 499), f32::NEG_INFINITY);
    assert!(level(caller, 520, 2_480) > -32.0);
    assert_eq!(level(caller, 2_520, 2_900), f32::NEG_INFINITY);
    // The agent: from its first sound until it is cleared, and not while it is paused.
    let (first, paused) = (at(&outcome, "agent.first_audio"), at(&outcome, "agent.paused"));
    let cleared = at(&outcome, "far_end.clear");
    assert_eq!(level(agent, 0, first), f32::NEG_INFINITY);
    assert!(level(agent, first + 20, paused) > -40.0);
    let quiet = (paused + 201).min(cleared);
    assert_eq!(level(agent, quiet, at(&outcome, "turn.committed(2)")), f32::NEG_INFINITY);
    // What was sent ahead (at most 200 ms) still plays behind a pause, nothing behind a clear.
    assert_eq!(level(agent, cleared, cleared + 200), f32::NEG_INFINITY);
    let (again, _) = recorded(&text, &Bank::default(), 0);
    assert!(again == tracks, "the same script sounds the same");
    assert!(staged(&text, Staging::default()).tracks.is_none());
}

/// Before anybody knows that what is loud is speech, less is sent ahead: silence comes with the
/// pause, not `lead_ms` behind it.
#[test]
fn a_caller_who_takes_the_floor_hears_silence_at_once() {
    let text = format!(
        "{STORY}[sound]\ndetector = \"earshot\"\n[[caller]]\nafter = \"agent.first_audio + 1s\"\n\
         says = \"Wait, stop that now\"\n"
    );
    let (tracks, outcome) = recorded(&text, &Bank::default(), 0);
    let (began, paused) = (at(&outcome, "agent.first_audio") + 1_000, at(&outcome, "agent.paused"));
    let quiet = (began..).step_by(10).find(|ms| level(&tracks.agent, *ms, ms + 80) < -60.0);
    let quiet = quiet.expect("it becomes quiet");
    assert!(began < paused && paused < quiet && quiet <= paused + 60, "{began} {paused} {quiet}");
    assert!(quiet < at(&outcome, "far_end.clear"), "before anybody is sure of it");
}

#[test]
fn deeds_are_mixed_at_the_level_that_is_asked_for() {
    let text = "about = \"a test\"
[sound]
background = { noise = \"pink\", level_dbfs = -40 }
[[caller]]
at = \"1s\"
tone = { hz = 440, for = \"500ms\", level_dbfs = -20 }
[[caller]]
at = \"2s\"
plays = \"click.wav\"
snr_db = 25
[[caller]]
at = \"3s\"
silence = \"400ms\"
[[caller]]
at = \"4s\"
noise = { kind = \"white\", for = \"300ms\", level_dbfs = -30 }
";
    let mut bank = Bank::default();
    bank.add_file("click.wav", craft::tone(16_000, 300.0, 8_000));
    let (tracks, outcome) = recorded(text, &bank, 3);
    let near = |from, to, wanted: f32| {
        let got = level(&tracks.caller, from, to);
        assert!((got - wanted).abs() < 1.5, "{from} to {to} ms: {got} dB, not {wanted}");
    };
    near(0, 1_000, -40.0);
    near(1_000, 1_500, -20.0);
    near(1_500, 2_000, -40.0);
    near(2_000, 2_500, -15.0);
    assert_eq!(level(&tracks.caller, 3_000, 3_400), f32::NEG_INFINITY);
    near(3_400, 4_000, -40.0);
    near(4_000, 4_300, -29.6);
    // Neither tones nor coloured noise are speech to a scripted detector; a recording is.
    let begun = outcome.facts.iter().filter(|fact| fact.fits("recognition.start")).count();
    assert_eq!(begun, 1, "{}", outcome.trace);
    let (other, _) = recorded(text, &bank, 4);
    assert!(other.caller != tracks.caller, "another seed is another noise");
}

#[test]
fn the_agents_own_sound_comes_back_late_and_quieter() {
    let text = format!(
        "{STORY}[sound]\ndetector = \"earshot\"\necho = {{ delay_ms = 100, attenuation_db = 30 }}\n"
    );
    let (tracks, outcome) = recorded(&text, &Bank::default(), 0);
    let first = at(&outcome, "agent.first_audio");
    let lost =
        level(&tracks.agent, first, first + 400) - level(&tracks.caller, first + 100, first + 500);
    assert!((lost - 30.0).abs() < 0.5, "{lost} dB are lost");
}

#[test]
fn the_same_seed_is_the_same_network_and_recordings_that_were_not_read_are_named() {
    let text = format!(
        "{STORY}[sound]\ndetector = \"earshot\"\nnetwork = {{ loss_pct = 20, jitter_ms = 150 }}\n"
    );
    let trace = |seed| staged(&text, Staging { seed, ..Staging::default() }).trace;
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
    let text = "about = \"a test\"\n[[caller]]\nat = \"1s\"\nplays = \"a.wav\"\n";
    let problems = staged(text, Staging::default()).problems;
    assert_eq!(problems, ["caller[1].plays: a.wav was not read"]);
}

#[test]
fn a_microphone_that_is_muted_in_mid_speech_sends_nothing_and_that_is_silence() {
    // B23, with a detector that listens.
    let text = "about = \"a test\"
[sound]
detector = \"earshot\"
background = { noise = \"white\", level_dbfs = -60 }
[[caller]]
at = \"0.5s\"
says = \"When are you open today\"
mutes = true
[[expect]]
order = [\"speech.started\", \"speech.stopped\", \"turn.committed(1)\", \"turn.answered(1)\"]
";
    let (tracks, _) = recorded(text, &Bank::default(), 0);
    assert!(level(&tracks.caller, 0, 400) > -62.0);
    assert_eq!(level(&tracks.caller, 2_520, 3_500), f32::NEG_INFINITY);
}

#[test]
fn every_source_of_sound_is_played_live_as_well() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures-sound");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let sounds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/calls/sounds");
    for name in ["tell_me_a_story.wav", "wait_stop.wav"] {
        std::fs::copy(sounds.join(name), folder.join(name)).expect("a copy");
    }
    let path = folder.join("live.toml");
    std::fs::write(&path, LIVE).expect("a fixture");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_floorkeeper"))
        .args(["fixture", "run"])
        .arg(&path)
        .args(["--live", "--json"])
        .output()
        .expect("it runs");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let fixture = &shown["fixtures"][0];
    assert_eq!(fixture["passed"], true, "{shown:#}");
    assert_eq!(fixture["live"], "our own server, detector earshot");
    let converted = "caller[1].plays: tell_me_a_story.wav: 16000 Hz mono 16 bit -> 24000 Hz mono 16 \
                     bit";
    assert_eq!(fixture["notes"][0], converted);
    let notes = fixture["notes"].as_array().expect("notes").len();
    assert_eq!(notes, 2, "nothing was left out: {shown:#}");
}

const LIVE: &str = "about = \"recordings, tones, noise and silence over a bad line with an echo\"
[llm]
reply = [\"There was a king who had three sons and a garden full of pears. He counted them all.\",
  \"All right, I stop.\"]
[sound]
detector = \"earshot\"
background = { noise = \"pink\", level_dbfs = -60 }
echo = { delay_ms = 120, attenuation_db = 40 }
network = { loss_pct = 3, jitter_ms = 40, gaps = [{ at = \"100ms\", for = \"200ms\" }] }
[[caller]]
at = \"0.5s\"
plays = \"tell_me_a_story.wav\"
words = \"Tell me a story please\"
[[caller]]
after = \"agent.first_audio + 500ms\"
tone = { hz = 1000, for = \"300ms\" }
[[caller]]
after = \"agent.first_audio + 1s\"
silence = \"200ms\"
[[caller]]
after = \"agent.first_audio + 1.3s\"
noise = { kind = \"pink\", for = \"300ms\", level_dbfs = -40 }
[[caller]]
after = \"agent.first_audio + 2.2s\"
plays = \"wait_stop.wav\"
words = \"Wait, stop that now please\"
level_dbfs = -22
[[expect]]
order = [\"agent.first_audio\", \"caller.tone\", \"caller.silence\", \"caller.noise\",
  \"agent.paused\", \"fence(2, why=barge_in)\", \"far_end.clear\", \"turn.answered(2)\"]
";

/// The recordings that the fixtures play are as they have to be: no machine converts them.
#[test]
fn the_fixtures_recordings_need_no_conversion() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/calls/sounds");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let recording = floorkeeper::cli::wav::read(&entry.path(), 16_000).expect("a recording");
        assert_eq!(recording.conversion(), None, "{}", entry.path().display());
        count += 1;
    }
    assert!(count >= 3);
}
