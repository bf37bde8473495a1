//! Messages that are nearly right, drawn from a seed: the same seed draws the same.

use std::path::Path;

/// A small repeatable source of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Case number `case` of this seed, whatever came before it.
    pub fn of(seed: u64, case: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ case.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`; 0 where there is nothing less.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Longer than every bound of what reads it.
const LENGTH_MAX: usize = 70_000;

/// What breaks readers.
const WORDS: [&str; 60] = [
    "\r\n",
    "\r\n ",
    "\n\n",
    "\r\n\r\n",
    "\r",
    "\0",
    " ",
    "\t",
    ";",
    ";;",
    ",",
    ":",
    "<",
    ">",
    "\"",
    "\\",
    "=",
    "@",
    "/",
    "%",
    "%00",
    "%0d%0a",
    "[",
    "]",
    "[::1]:",
    "sip:",
    "sips:",
    "tel:+",
    "-1",
    "0",
    "65536",
    "2147483648",
    "4294967296",
    "18446744073709551616",
    "é",
    "\u{feff}",
    "大",
    ";tag=",
    ";branch=z9hG4bK",
    ";rport",
    ";lr",
    "SIP/2.0",
    "INVITE",
    "ACK",
    "CSeq: 1 BYE\r\n",
    "Content-Length: 9\r\n",
    "Require: 100rel\r\n",
    "Session-Expires: 90\r\n",
    "m=audio 9 RTP/AVP 0\r\n",
    "m=audio 0 RTP/SAVP 8\r\n",
    "c=IN IP6 ::\r\n",
    "c=IN IP4 0.0.0.0\r\n",
    "a=sendonly\r\n",
    "a=rtpmap:0 PCMA/8000\r\n",
    "a=rtpmap:127 ",
    "a=rtpmap:0 opus/48000/2\r\n",
    "a=rtpmap:101 telephone-event/48000\r\n",
    "a=fmtp:107 maxaveragebitrate=",
    "m=audio 9 RTP/AVP 9 107\r\n",
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:",
];

/// The messages that everything is drawn from: every file of the corpus.
pub fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sip");
    let files = std::fs::read_dir(folder).expect("the corpus");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

/// One of these, changed in a few places.
pub fn mutated(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = dice.one_of(seeds).clone();
    for _ in 0..=dice.below(5) {
        mutate(dice, &mut bytes, seeds);
        bytes.truncate(LENGTH_MAX);
    }
    bytes
}

fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = dice.below(bytes.len() + 1);
    let length = dice.below(24).min(bytes.len() - at);
    match dice.below(12) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
        1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = dice.draw() as u8),
        2 => drop(bytes.drain(at..at + length)),
        3 => drop(bytes.splice(at..at + length, dice.one_of(&WORDS).bytes())),
        4 => drop(bytes.splice(at..at, dice.one_of(&WORDS).bytes())),
        5 => {
            let again = bytes[at..at + length].repeat(1 + dice.below(3));
            bytes.splice(at..at, again);
        }
        6 => lines(bytes, |lines| {
            let (one, other) = (dice.below(lines.len()), dice.below(lines.len()));
            lines.swap(one, other);
        }),
        7 => lines(bytes, |lines| {
            let line = dice.one_of(lines).clone();
            let at = dice.below(lines.len());
            // Many of them now and then: bounds are there to be met.
            let times = if dice.below(8) == 0 { 600 } else { 1 };
            lines.splice(at..at, std::iter::repeat_n(line, times));
        }),
        8 => lines(bytes, |lines| drop(lines.remove(dice.below(lines.len())))),
        9 => {
            let other = dice.one_of(seeds);
            let from = dice.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        10 => number(dice, bytes, at),
        _ => bytes.truncate(at),
    }
}

fn lines(bytes: &mut Vec<u8>, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
    let mut lines: Vec<Vec<u8>> =
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if !lines.is_empty() {
        change(&mut lines);
    }
    *bytes = lines.concat();
}

/// The next number becomes another.
fn number(dice: &mut Dice, bytes: &mut Vec<u8>, at: usize) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|from| at + from) else {
        return;
    };
    let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = match dice.below(4) {
        0 => dice.below(4).to_string(),
        1 => dice.below(70_000).to_string(),
        2 => dice.draw().to_string(),
        _ => "9".repeat(1 + dice.below(40)),
    };
    bytes.splice(from..from + digits, number.bytes());
}
