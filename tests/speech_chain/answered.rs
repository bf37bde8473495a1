//! Who has answered: mailboxes and announcements of a real exchange, people who read aloud, and
//! words that people say when they take the receiver (issue 7.5).

use floorkeeper::turn::answered::{Answered, Who};

use crate::sounds::sound;

const LISTENS_MS: u32 = 6_000;

/// Silence with a line's hum.
fn quiet(quiet_ms: usize) -> Vec<i16> {
    (0..quiet_ms * 16).map(|at| (at % 7) as i16 * 3 - 9).collect()
}

fn who(parts: &[&[i16]]) -> Option<Who> {
    let mut answered = Answered::new(LISTENS_MS);
    parts.concat().chunks(320).find_map(|frame| answered.hear(frame))
}

fn of_exchange(names: &[&str]) -> Option<Vec<i16>> {
    let parts: Option<Vec<_>> =
        names.iter().map(|name| sound("asterisk", &format!("{name}.wav"))).collect();
    if parts.is_none() {
        eprintln!("SKIP: no recordings (apt-get install asterisk-core-sounds-en-wav)");
    }
    Some(parts?.concat())
}

#[test]
fn mailboxes_and_announcements_are_machines() {
    let away = ["vm-theperson", "digits/1", "digits/0", "vm-isunavail", "vm-intro", "beep"];
    for names in [
        &away[..],
        &["vm-theperson", "digits/7", "vm-isonphone", "vm-intro", "beep"],
        &["vm-intro", "beep"],
        &["beep"],
        &["cannot-complete-as-dialed"],
        &["ss-noservice"],
        &["demo-congrats"],
    ] {
        let Some(said) = of_exchange(names) else { return };
        for before_ms in [100, 900, 2_000] {
            let heard = who(&[&quiet(before_ms), &said, &quiet(7_000)]);
            assert_eq!(heard, Some(Who::Machine), "{names:?} behind {before_ms} ms");
        }
    }
}

#[test]
fn who_says_a_word_and_waits_is_a_person() {
    for names in [&["hello"][..], &["digits/1"], &["digits/7"], &["digits/2", "digits/0"]] {
        let Some(said) = of_exchange(names) else { return };
        for before_ms in [100, 900, 2_000] {
            let heard = who(&[&quiet(before_ms), &said, &quiet(7_000)]);
            assert_eq!(heard, Some(Who::Person), "{names:?} behind {before_ms} ms");
        }
    }
}

#[test]
fn who_reads_aloud_is_a_machine() {
    for number in ["0870", "0880", "0890", "0930", "0920"] {
        let name = format!("librivox/sense_and_sensibility_01_austen_64kb-{number}.wav");
        let Some(said) = sound("pocketsphinx", &name) else { continue };
        assert_eq!(who(&[&quiet(400), &said]), Some(Who::Machine), "{name}");
    }
}
