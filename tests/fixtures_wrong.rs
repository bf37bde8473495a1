//! A fixture that is written wrong is refused: the file, the line, the key, what is wrong and what
//! would be right.

use std::path::{Path, PathBuf};
use std::process::Command;

use floorkeeper::sim::script::Script;

fn refused(rest: &str) -> String {
    let text = format!("about = \"a test\"\n{rest}");
    Script::parse("wrong.toml", &text).expect_err(rest).to_string()
}

/// What is refused is refused with exactly this, behind the file's name.
fn is_refused(rest: &str, wanted: &str) {
    assert_eq!(refused(rest), format!("wrong.toml:{wanted}"));
}

#[test]
fn unknown_keys_are_named() {
    is_refused(
        "[[caller]]\nat = \"1s\"\nplay = \"a.wav\"\n",
        "4: caller[1].play: there is no key `play` here; did you mean `plays`?",
    );
    let far = refused("[[caller]]\nat = \"1s\"\nqqq = 1\n");
    assert!(far.starts_with("wrong.toml:4: caller[1].qqq: there is no key `qqq` here; one of at,"));
    is_refused(
        "[[caller]]\nat = \"1s\"\ntone = { hz = 440, fro = \"1s\" }\n",
        "4: caller[1].tone.fro: there is no key `fro` here; one of hz, for, level_dbfs",
    );
    is_refused(
        "\n[sound]\ndetektor = \"earshot\"\n",
        "4: sound.detektor: there is no key `detektor` here; did you mean `detector`?",
    );
    let config = refused("[turn]\nbudjet_ms = 10\n");
    assert!(config.starts_with("wrong.toml:3: turn.budjet_ms: "), "{config}");
    assert!(config.contains("budget_ms"), "{config}");
    is_refused(
        "[session]\nmanuel = true\n",
        "3: session.manuel: there is no key `manuel` here; did you mean `manual`?",
    );
    is_refused(
        "[[expect]]\nnever = \"fence\"\nafter_all = \"prompt\"\n",
        "4: expect[1].after_all: there is no key `after_all` here; did you mean `after`?",
    );
}

#[test]
fn wrong_values_are_named() {
    is_refused(
        "[[caller]]\nat = 1\nsays = \"hello\"\n",
        "3: caller[1].at: invalid type: integer `1`; a string",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\ntone = { hz = 9, for = \"1s\" }\n",
        "4: caller[1].tone.hz: 9 is out of bounds; a number from 20 to 7900",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\nsays = \"hello\"\nlevel_dbfs = 3\n",
        "5: caller[1].level_dbfs: 3 is out of bounds; a number from -90 to 0",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\nnoise = { kind = \"brown\", for = \"1s\" }\n",
        "4: caller[1].noise.kind: \"brown\" is no kind of noise; white or pink; every other sound \
         is a recording: plays = \"….wav\"",
    );
    is_refused(
        "[sound]\ndetector = \"erashot\"\n",
        "3: sound.detector: \"erashot\" is not known; did you mean \"earshot\"?",
    );
    is_refused(
        "[sound]\necho = { delay_ms = 100, attenuation_db = 10 }\n",
        "3: sound.echo: the scripted detector does not listen to sound; detector = \"earshot\" or \
         \"silero\" beside it",
    );
    is_refused(
        "[[gate]]\ngate = \"modle\"\nhold = 1\n",
        "3: gate[1].gate: there is no gate \"modle\"; did you mean \"model\"?",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\ntone = { for = \"1s\" }\n",
        "4: caller[1].tone: missing field `hz`; see docs/reference/fixtures.md",
    );
    is_refused(
        "about 1",
        "2: the file: key with no value, expected `=`; see docs/reference/fixtures.md",
    );
}

#[test]
fn a_deed_has_one_time_and_one_content() {
    is_refused("[[caller]]\nsays = \"hello\"\n", "2: caller[1]: it has no time; at or after");
    is_refused(
        "[[caller]]\nat = \"1s\"\nafter = \"fence\"\nsays = \"hello\"\n",
        "2: caller[1]: it has both at and after; one of them",
    );
    let two = refused("[[caller]]\nat = \"1s\"\nsays = \"hello\"\nhangs_up = true\n");
    assert!(two.starts_with("wrong.toml:2: caller[1]: it is more than one deed; one of"), "{two}");
    let nothing = refused("[[caller]]\nat = \"1s\"\n");
    assert!(nothing.contains("it does not say what the caller does"), "{nothing}");
    let how = refused("[[caller]]\nat = \"1s\"\nresponds = \"loudly\"\n");
    assert!(how.starts_with("wrong.toml:4: caller[1].responds: it is no way to ask"), "{how}");
    is_refused(
        "[[caller]]\nat = \"1s\"\nnoise = \"1s\"\nfor = \"2s\"\n",
        "5: caller[1].for: it means nothing here; a deed with `says`",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\nsays = \"hi\"\nwords = \"hello\"\n",
        "5: caller[1].words: it means nothing here; a deed with `plays`",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\nsays = \"hi\"\nsnr_db = 10\n",
        "5: caller[1].snr_db: there is no background to be louder than; [sound] background = { \
         noise = \"pink\", level_dbfs = -50 }, or level_dbfs",
    );
    is_refused(
        "[[expect]]\nnever = \"fence\"\norder = [\"fence\"]\n",
        "2: expect[1]: it is more than one expectation; one of order, never, count, within, asked, \
         history_ends_with = \"heard\"",
    );
}

#[test]
fn impossible_times_are_refused() {
    for time in ["soon", "-1s", "1m", "2h", "4000s", ""] {
        let wrong = refused(&format!("[[caller]]\nat = \"{time}\"\nhangs_up = true\n"));
        let start =
            format!("wrong.toml:3: caller[1].at: \"{time}\" is no time; a time up to an hour");
        assert!(wrong.starts_with(&start), "{wrong}");
    }
    is_refused(
        "ends_by = \"5s\"\n[[caller]]\nat = \"6s\"\nhangs_up = true\n",
        "4: caller[1].at: 6s is behind the fixture's end (5s); an earlier time, or a later ends_by",
    );
    is_refused(
        "ends_by = \"5s\"\n[[caller]]\nat = \"4s\"\nnoise = \"1s\"\n\
         [[caller]]\nafter = \"caller.noise + 2s\"\nhangs_up = true\n",
        "7: caller[2].after: 6s is behind the fixture's end (5s); an earlier time, or a later \
         ends_by",
    );
    is_refused(
        "[[caller]]\nat = \"4s\"\nhangs_up = true\n[[caller]]\nat = \"5s\"\nnoise = \"1s\"\n",
        "6: caller[2].at: the caller has hung up by then (4s); an earlier time, or maybe = true",
    );
    is_refused(
        "[[gate]]\ngate = \"model\"\nhold = 1\nfrom = \"3s\"\nuntil = \"2s\"\n",
        "6: gate[1].until: 2s is not behind its beginning (3s); a time behind `from`",
    );
    is_refused(
        "[[caller]]\nat = \"4s\"\nsilence = \"0s\"\n",
        "4: caller[1].silence: it takes no time; a time above 0, as 300ms",
    );
}

#[test]
fn deeds_that_wait_for_each_other_are_refused() {
    is_refused(
        "[[caller]]\nafter = \"caller.noise + 1s\"\nnoise = \"200ms\"\n",
        "3: caller[1].after: \"caller.noise\" is only done behind this very deed; a deed that does \
         not wait for itself",
    );
    // A ring of three, of which two deeds have the same name.
    let ring = refused(
        "[[caller]]\nafter = \"caller.cancels\"\nclears = true\n\
         [[caller]]\nafter = \"caller.clears\"\nnoise = \"1s\"\n\
         [[caller]]\nafter = \"caller.cancels\"\nnoise = \"1s\"\n\
         [[caller]]\nafter = \"caller.noise\"\ncancels = true\n",
    );
    assert!(ring.contains(":3: caller[1].after: ") && ring.contains("only done behind"), "{ring}");
    is_refused(
        "[[caller]]\nat = \"1s\"\nnoise = \"1s\"\n\
         [[caller]]\nafter = \"caller.noise\"\nnth = 2\ncancels = true\n",
        "6: caller[2].after: \"caller.noise\" is done 1 times, never 2; nth = 1, or more such deeds",
    );
    let fine = "about = \"a test\"\n[[caller]]\nat = \"1s\"\nnoise = \"1s\"\n\
                [[caller]]\nafter = \"caller.noise + 1s\"\nnoise = \"1s\"\n";
    assert!(Script::parse("fine.toml", fine).is_ok());
}

#[test]
fn facts_that_never_happen_are_refused() {
    is_refused(
        "[[caller]]\nafter = \"agent.first_sound + 1s\"\nhangs_up = true\n",
        "3: caller[1].after: \"agent.first_sound\" never happens; did you mean \
         \"agent.first_audio\"?",
    );
    is_refused(
        "[[expect]]\norder = [\"speech.started\", \"turn.commited(1)\"]\n",
        "3: expect[1].order[2]: \"turn.commited\" never happens; did you mean \"turn.committed\"?",
    );
    is_refused(
        "[[expect]]\nnever = \"fence(2, because=barge_in)\"\n",
        "3: expect[1].never: \"fence\" has no detail because=barge_in; its details: the plain one, \
         why",
    );
    is_refused(
        "[[expect]]\nnever = \"fence(2, why=bargein)\"\n",
        "3: expect[1].never: \"fence\" is never \"bargein\"; did you mean \"barge_in\"?",
    );
    is_refused(
        "[[expect]]\nnever = \"turn.committed(first)\"\n",
        "3: expect[1].never: \"turn.committed\" is never \"first\"; a whole number",
    );
    is_refused(
        "[[expect]]\norder = []\n",
        "3: expect[1].order: it expects nothing; a list of facts",
    );
    is_refused(
        "[[gate]]\ngate = \"model\"\nhold = 4000000000\n",
        "4: gate[1].hold: 4000000000 is many; at most 10000",
    );
    is_refused(
        "[[expect]]\ncount = { event = \"xyz\", exactly = 1 }\n",
        "3: expect[1].count.event: \"xyz\" never happens; a fact of docs/reference/fixtures.md",
    );
    is_refused(
        "[[caller]]\nat = \"1s\"\nnoise = \"1s\"\n[[expect]]\n\
         within = { event = \"caller.hangs_up\", of = \"fence\", span = \"1s\" }\n",
        "6: expect[1].within.event: no deed of this script is \"caller.hangs_up\"; a [[caller]] \
         that does it; there are caller.noise",
    );
    is_refused(
        "[[expect]]\ncount = { event = \"fence\", at_least = 3, at_most = 2 }\n",
        "3: expect[1].count: at least 3 and at most 2 is never; an at_least that is not above \
         at_most",
    );
}

#[test]
fn what_never_happens_fails_the_fixture() {
    let text = "about = \"a test\"\n[[caller]]\nafter = \"tool.start + 1s\"\nhangs_up = true\n\
                [[expect]]\nnever = \"agent.audio\"\nafter = \"tool.start\"\n\
                [[expect]]\nasked = { nth = 3 }\n";
    let script = Script::parse("never.toml", text).expect("it is written well");
    let fallback = floorkeeper::config::Script::read(None).expect("the built-in prompts");
    let outcome = floorkeeper::sim::world::run(&script, std::sync::Arc::new(fallback))
        .expect("its providers can be made");
    let problems = outcome.problems.join("\n");
    assert!(problems.contains("caller[1]: \"tool.start\" never happened"), "{problems}");
    assert!(problems.contains("never agent.audio after tool.start: no tool.start came"));
    assert!(problems.contains("asked: there were 0 requests, not 3"), "{problems}");
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures-wrong");
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder.join(name)
}

/// Runs one fixture of this text: exit code, what was printed, what was complained of.
fn run(name: &str, text: &str) -> (Option<i32>, String, String) {
    let path = scratch(name);
    std::fs::write(&path, text).expect("a fixture");
    let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
    let output = command.args(["fixture", "run"]).arg(&path).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_missing_recording_is_named_and_ends_with_2() {
    let (code, _, told) = run(
        "missing.toml",
        "about = \"a test\"\n[[caller]]\nat = \"1s\"\nplays = \"nowhere/no.wav\"\n",
    );
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("missing.toml:4: caller[1].plays: "), "{told}");
    assert!(told.contains("nowhere/no.wav: no such file; give the path of a WAV"), "{told}");
    let (code, _, told) = run(
        "missing_bed.toml",
        "about = \"a test\"\n[sound]\nbackground = { wav = \"none.wav\" }\n",
    );
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("missing_bed.toml:3: sound.background.wav: "), "{told}");
    std::fs::write(scratch("text.wav"), "hello").expect("a file");
    let (code, _, told) =
        run("no_wav.toml", "about = \"a test\"\n[[caller]]\nat = \"1s\"\nplays = \"text.wav\"\n");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("no_wav.toml:4: caller[1].plays: ") && told.contains("is not a WAV"));
}

#[test]
fn a_detector_that_is_not_here_is_named_and_ends_with_2() {
    let path = scratch("silero.toml");
    std::fs::write(&path, "about = \"a test\"\n[sound]\ndetector = \"silero\"\n").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
    // An empty home has no fetched models.
    command.args(["fixture", "run"]).arg(&path).env("HOME", scratch("home"));
    let output = command.env_remove("XDG_CACHE_HOME").output().expect("it runs");
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("silero.toml:3: sound.detector: ") && told.contains("earshot"), "{told}");
}

#[test]
fn a_recording_of_another_kind_is_converted_and_says_so() {
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: 44_100,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(scratch("stereo.wav"), spec).expect("a file");
    for at in 0..88_200_i32 {
        writer.write_sample((at % 200 * 40) as i16).expect("a sample");
    }
    writer.finalize().expect("a file");
    let (_, printed, _) =
        run("stereo.toml", "about = \"a test\"\n[[caller]]\nat = \"1s\"\nplays = \"stereo.wav\"\n");
    let note = "(caller[1].plays: stereo.wav: 44100 Hz stereo 16 bit -> 16000 Hz mono 16 bit)";
    assert!(printed.contains(note), "{printed}");
}
