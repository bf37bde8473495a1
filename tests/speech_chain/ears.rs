//! The ears on real sound: speech is heard, music is not, and an ended turn is told from a pause.

use crate::sounds::{recordings, sound, surroundings};
use floorkeeper::provider::ear::gain::{Gain, Levelled};
use floorkeeper::provider::ear::{DETECTORS, Detector, END_OF_TURN, Listening};
use floorkeeper::provider::{Surroundings, find, models, onnx};
use ort::session::Session;
use ort::value::TensorRef;

fn detector(name: &str, around: &Surroundings) -> std::sync::Arc<dyn Detector> {
    let entry = find(DETECTORS, "vad.detector", name).expect("it is in the table");
    (entry.build)(&toml::Table::new(), around).expect("it can be had")
}

/// The share of windows that are taken for speech.
fn speech_share(ear: &mut dyn Listening, sound: &[i16]) -> f64 {
    let windows: Vec<_> = sound.chunks_exact(ear.window()).map(|window| ear.hear(window)).collect();
    windows.iter().filter(|p| **p > 0.5).count() as f64 / windows.len() as f64
}

#[test]
fn both_detectors_hear_people_talking() {
    let Some(around) = surroundings("both_detectors_hear_people_talking") else { return };
    let recordings = recordings("both_detectors_hear_people_talking");
    for name in ["silero", "earshot"] {
        let detector = detector(name, &around);
        for recording in &recordings {
            let share = speech_share(&mut *detector.listen(), &recording.sound);
            assert!(share > 0.3, "{name} heard speech in {share:.2} of {}", recording.name);
        }
    }
}

/// Issue 4: a quiet line is heard as well as a loud one, because each call has a gain of its own.
#[test]
fn a_quiet_caller_is_heard_with_a_gain() {
    let Some(around) = surroundings("a_quiet_caller_is_heard_with_a_gain") else { return };
    let recordings = recordings("a_quiet_caller_is_heard_with_a_gain");
    if recordings.is_empty() {
        return;
    }
    let detector = detector("earshot", &around);
    // As the server asks it: a window that is plainly silent is not shown to the detector.
    let heard = |sound: &[i16], most_db: f32| {
        let (mut gain, mut ear) = (Gain::new(most_db), detector.listen());
        let size = ear.window();
        let windows = sound.chunks_exact(size).filter(|window| {
            let Levelled { window, level_dbfs, .. } = gain.level(window, 16_000, true);
            level_dbfs > -55.0 && ear.hear(window) > 0.5
        });
        windows.count() as f64
    };
    let (mut loud, mut plain, mut lifted) = (0.0, 0.0, 0.0);
    for recording in &recordings {
        let quiet: Vec<i16> = recording.sound.iter().map(|sample| sample / 50).collect();
        loud += heard(&recording.sound, 0.0);
        plain += heard(&quiet, 0.0);
        lifted += heard(&quiet, 18.0);
    }
    println!("34 dB quieter: {:.2} of the speech, with a gain {:.2}", plain / loud, lifted / loud);
    assert!(lifted > loud * 0.7, "{lifted} of {loud}");
    assert!(plain < lifted * 0.7, "{plain} without a gain, {lifted} with it");
}

/// Silence that was not shown to the detector leaves it as silence that was: no word is heard later
/// for it.
#[test]
fn skipped_silence_is_silence() {
    let Some(around) = surroundings("skipped_silence_is_silence") else { return };
    let detector = detector("silero", &around);
    for recording in recordings("skipped_silence_is_silence") {
        let (mut shown, mut skipped) = (detector.listen(), detector.listen());
        let size = shown.window();
        for _ in 0..16_000 / size {
            shown.hear(&vec![0; size]);
            skipped.skip(size);
        }
        for (at, window) in recording.sound.chunks_exact(size).enumerate() {
            let (shown, skipped) = (shown.hear(window), skipped.hear(window));
            let place = format!("{}, window {at}", recording.name);
            assert!((skipped - shown).abs() < 0.1, "{place}: {skipped}, not {shown}");
        }
    }
}

#[test]
fn silero_keeps_silent_on_music_and_noise() {
    let Some(around) = surroundings("silero_keeps_silent_on_music_and_noise") else { return };
    let detector = detector("silero", &around);
    let noise: Vec<i16> = (0_u32..160_000)
        .scan(1_u32, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*state >> 16) as i16 / 16)
        })
        .collect();
    assert_eq!(speech_share(&mut *detector.listen(), &noise), 0.0);
    assert_eq!(speech_share(&mut *detector.listen(), &vec![0; 160_000]), 0.0);
    let Some(music) = sound("moh", "macroform-cold_day.wav") else {
        return eprintln!("SKIP music: apt-get install asterisk-moh-opsound-wav");
    };
    let share =
        speech_share(&mut *detector.listen(), &music[..16_000 * 30.min(music.len() / 16_000)]);
    assert!(share < 0.02, "{share:.3} of the music is speech");
}

/// A line is quiet for so long before anybody speaks.
static SILENCE: [i16; 512 * 250] = [0; 512 * 250];

/// Silero as its makers mean it to be run, behind silence.
fn by_the_runtime(session: &mut Session, sound: &[i16]) -> ort::Result<Vec<f32>> {
    let (mut input, mut state) = ([0.0_f32; 576], vec![0.0_f32; 256]);
    let mut heard = Vec::new();
    for window in SILENCE.chunks_exact(512).chain(sound.chunks_exact(512)) {
        input.copy_within(512.., 0);
        for (to, from) in input[64..].iter_mut().zip(window) {
            *to = f32::from(*from) / 32_768.0;
        }
        let outputs = session.run(ort::inputs! {
            "input" => TensorRef::from_array_view(([1, input.len()], &input[..]))?,
            "state" => TensorRef::from_array_view(([2_usize, 1, 128], &state[..]))?,
            "sr" => TensorRef::from_array_view(([0_usize; 0], &[16_000_i64][..]))?,
        })?;
        let next = outputs["stateN"].try_extract_tensor::<f32>()?.1.to_vec();
        heard.push(outputs["output"].try_extract_tensor::<f32>()?.1[0]);
        drop(outputs);
        state = next;
    }
    heard.drain(..SILENCE.len() / 512);
    Ok(heard)
}

#[test]
fn silero_computed_here_hears_what_the_runtime_hears() {
    let Some(around) = surroundings("silero_computed_here") else { return };
    let file = models::locate(&around.models_dir, &models::EARS, "silero_vad.onnx");
    let session = onnx::session(&around.models_dir, &file.expect("it is in its pack"));
    let mut session = session.expect("the runtime takes it");
    let detector = detector("silero", &around);
    let mut sounds: Vec<_> =
        recordings("silero_computed_here").into_iter().map(|r| (r.name, r.sound)).collect();
    if let Some(music) = sound("moh", "macroform-cold_day.wav") {
        sounds.push(("music".to_owned(), music[..16_000 * 30.min(music.len() / 16_000)].to_vec()));
    }
    for (name, sound) in sounds {
        let mut ear = detector.listen();
        let wanted = by_the_runtime(&mut session, &sound).expect("the runtime runs it");
        for (at, (window, wanted)) in sound.chunks_exact(512).zip(wanted).enumerate() {
            let found = ear.hear(window);
            assert!((found - wanted).abs() < 0.01, "{name}, window {at}: {found}, not {wanted}");
        }
    }
}

#[test]
fn what_was_skipped_is_forgotten_and_speech_is_heard_again() {
    let Some(around) = surroundings("what_was_skipped_is_forgotten") else { return };
    let detector = detector("silero", &around);
    let Some(speech) = sound("asterisk", "vm-nobodyavail.wav") else { return };
    let mut ear = detector.listen();
    let first = speech_share(&mut *ear, &speech);
    ear.skip(16_000);
    let again = speech_share(&mut *ear, &speech);
    let fresh = speech_share(&mut *detector.listen(), &speech);
    assert_eq!(first, fresh);
    assert_eq!(again, fresh, "a second of skipped silence leaves nothing behind");
}

#[test]
fn calls_do_not_hear_each_other() {
    let Some(around) = surroundings("calls_do_not_hear_each_other") else { return };
    let detector = detector("silero", &around);
    let Some(speech) = sound("asterisk", "vm-nobodyavail.wav") else { return };
    let alone: Vec<_> = {
        let mut ear = detector.listen();
        speech.chunks_exact(512).map(|window| ear.hear(window)).collect()
    };
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let (mut ear, speech) = (detector.listen(), speech.clone());
            std::thread::spawn(move || -> Vec<f32> {
                speech.chunks_exact(512).map(|window| ear.hear(window)).collect()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("a call"), alone);
    }
}

#[test]
fn smart_turn_tells_a_finished_sentence_from_one_cut_short() {
    let Some(around) = surroundings("smart_turn_tells") else { return };
    let entry = find(END_OF_TURN, "turn.end", "smart_turn").expect("it is in the table");
    let model = (entry.build)(&toml::Table::new(), &around).expect("it can be had");
    let recordings = recordings("smart_turn_tells");
    if recordings.is_empty() {
        return;
    }
    let whole: Vec<_> = recordings.iter().map(|r| model.finished(&r.sound)).collect();
    let half: Vec<_> =
        recordings.iter().map(|r| model.finished(&r.sound[..r.sound.len() * 45 / 100])).collect();
    let over = |ps: &[f32]| ps.iter().filter(|p| **p > 0.5).count() as f64 / ps.len() as f64;
    println!("whole sentences > 0.5: {:.2}; cut ones: {:.2}", over(&whole), over(&half));
    assert!(over(&whole) > 0.8, "{whole:?}");
    assert!(over(&half) < over(&whole) - 0.3, "{half:?}");
}

#[test]
fn smart_turn_agrees_with_its_makers_own_features() {
    let Some(around) = surroundings("smart_turn_agrees") else { return };
    let entry = find(END_OF_TURN, "turn.end", "smart_turn").expect("it is in the table");
    let model = (entry.build)(&toml::Table::new(), &around).expect("it can be had");
    // Computed once with the Python code that the model's package brings along, on ONNX Runtime
    // 1.23.2 (other runtimes differ by 0.01: the weights are quantised).
    for (name, percent, wanted) in [
        ("cards/001.wav", 100, 0.9880),
        ("cards/001.wav", 45, 0.9836),
        ("librivox/sense_and_sensibility_01_austen_64kb-0870.wav", 100, 0.9849),
        ("librivox/sense_and_sensibility_01_austen_64kb-0870.wav", 45, 0.0223),
        ("librivox/sense_and_sensibility_01_austen_64kb-0890.wav", 100, 0.9283),
        ("librivox/sense_and_sensibility_01_austen_64kb-0890.wav", 45, 0.0250),
    ] {
        let Some(sound) = sound("pocketsphinx", name) else {
            return eprintln!("SKIP smart_turn_agrees: apt-get install pocketsphinx-testdata");
        };
        let found = model.finished(&sound[..sound.len() * percent / 100]);
        assert!((found - wanted).abs() < 0.02, "{name} {percent} %: {found}, wanted {wanted}");
    }
}

/// Processor time of this thread, which other work on the machine does not change.
fn cpu_time() -> std::time::Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which outlives the call.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Run by hand: `cargo test --test speech_chain measure -- --ignored --nocapture`
#[test]
#[ignore = "prints a measurement"]
fn measure() {
    let around = surroundings("measure").expect("the models");
    for name in ["silero", "earshot"] {
        let mut ear = detector(name, &around).listen();
        let window = vec![100; ear.window()];
        let mut times: Vec<_> = (0..5_000)
            .map(|_| {
                let start = cpu_time();
                ear.hear(&window);
                cpu_time() - start
            })
            .collect();
        times.sort();
        let (best, middle) = (times[times.len() / 100], times[times.len() / 2]);
        println!("{name}: {best:?} to {middle:?} a window of {} samples", ear.window());
    }
    let entry = find(END_OF_TURN, "turn.end", "smart_turn").expect("it is in the table");
    let model = (entry.build)(&toml::Table::new(), &around).expect("it can be had");
    let time = |_| {
        let start = cpu_time();
        model.finished(&[100; 128_000]);
        cpu_time() - start
    };
    println!("smart_turn: at best {:?} a pause", (0..20).map(time).min().expect("some"));
}
