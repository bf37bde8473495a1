//! Keys that a session description agrees on (SDES, RFC 4568).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Key and salt of AES-128 in counter mode.
const KEY_BYTES: usize = 30;
/// RTP with keys, and without.
pub(super) const SECURE: &str = "RTP/SAVP";
pub(super) const PLAIN: &str = "RTP/AVP";

/// Whether sound is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Srtp {
    /// Where the caller offers it.
    Offered,
    /// Always: what is plain is refused.
    Required,
    /// Never.
    Off,
}

impl Srtp {
    /// What our own offer says: what was agreed before goes on.
    pub(super) fn line(self, agreed: Option<&Keys>) -> Option<Line> {
        let ours = |keys: &Keys| Line { tag: 1, suite: keys.suite, key: keys.ours.clone() };
        let drawn = || Line { tag: 1, suite: Suite::Tag80, key: Key::drawn() };
        agreed.map(ours).or_else(|| (self == Srtp::Required).then(drawn))
    }
}

/// How a packet is proven; encrypted they are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Tag80,
    Tag32,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Suite::Tag80 => "AES_CM_128_HMAC_SHA1_80",
            Suite::Tag32 => "AES_CM_128_HMAC_SHA1_32",
        }
    }
}

/// A key with its salt, which nobody is shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key([u8; KEY_BYTES]);

impl Key {
    fn drawn() -> Key {
        Key(rand::random())
    }

    /// The key, and the salt.
    pub fn parts(&self) -> (&[u8], &[u8]) {
        self.0.split_at(16)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A key as one end says it: `1 AES_CM_128_HMAC_SHA1_80 inline:…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub tag: u32,
    pub suite: Suite,
    pub key: Key,
}

impl Line {
    /// `None`: it asks for what is not spoken here: another suite, several keys or one with a name
    /// (MKI), keys that are derived again, packets that are not encrypted or not proven.
    pub fn parse(value: &str) -> Option<Line> {
        let mut words = value.split_ascii_whitespace();
        let tag = words.next()?.parse().ok()?;
        let name = words.next()?;
        let suite = [Suite::Tag80, Suite::Tag32].into_iter().find(|suite| suite.name() == name)?;
        let (how, said) = words.next()?.split_once(':')?;
        let mut parts = said.split('|');
        let key = STANDARD.decode(parts.next()?).ok()?;
        let key = Key(key.try_into().ok()?);
        // How long a key lives is told by who sends with it.
        let is_lifetime = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'^');
        // How far packets are remembered against replay is ours; what begins with "-" may be left
        // out.
        let is_hint = |word: &str| word.starts_with("WSH=") || word.starts_with('-');
        let spoken =
            how.eq_ignore_ascii_case("inline") && parts.all(is_lifetime) && words.all(is_hint);
        spoken.then_some(Line { tag, suite, key })
    }

    /// As it stands in a description.
    pub fn write(&self) -> String {
        let Line { tag, suite, key } = self;
        format!("a=crypto:{tag} {} inline:{}\r\n", suite.name(), STANDARD.encode(key.0))
    }
}

/// What both ends encrypt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// What the stream is called: some phones say `RTP/AVP` and a key.
    pub profile: &'static str,
    pub tag: u32,
    pub suite: Suite,
    pub theirs: Key,
    pub ours: Key,
}

impl Keys {
    /// The answer to their line: a key of ours, a new one whenever theirs is.
    fn answering(profile: &'static str, line: &Line, before: Option<&Keys>) -> Keys {
        let Line { tag, suite, key } = line.clone();
        let same = before.filter(|keys| keys.suite == suite && keys.theirs == key);
        let ours = same.map_or_else(Key::drawn, |keys| keys.ours.clone());
        Keys { profile, tag, suite, theirs: key, ours }
    }

    /// Their answer to our line.
    fn answered(ours: &Line, theirs: &Line) -> Option<Keys> {
        let Line { tag, suite, key } = theirs.clone();
        let fits = tag == ours.tag && suite == ours.suite;
        let keys = || Keys { profile: SECURE, tag, suite, theirs: key, ours: ours.key.clone() };
        fits.then(keys)
    }

    /// Our line.
    pub fn line(&self) -> Line {
        Line { tag: self.tag, suite: self.suite, key: self.ours.clone() }
    }
}

/// What a description of theirs is read as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Secrecy<'a> {
    /// They offer; what may be spoken, and what was agreed on before.
    Offer(Srtp, Option<&'a Keys>),
    /// They answer our offer, which had this key.
    Answer(Option<&'a Line>),
}

impl Secrecy<'_> {
    /// The stream that is spoken over, with its keys. `find` looks for a stream of a profile, with
    /// a key or without.
    pub fn choose<S>(
        self,
        find: impl Fn(&str, bool) -> Option<S>,
        line: impl Fn(&S) -> Option<Line>,
    ) -> Option<(S, Option<Keys>)> {
        let with_key = |profile: &'static str, keys: &dyn Fn(&Line) -> Option<Keys>| {
            let stream = find(profile, true)?;
            let keys = keys(&line(&stream)?)?;
            Some((stream, Some(keys)))
        };
        let plain = || find(PLAIN, false).map(|stream| (stream, None));
        match self {
            Secrecy::Answer(None) | Secrecy::Offer(Srtp::Off, _) => plain(),
            Secrecy::Answer(Some(ours)) => with_key(SECURE, &|line| Keys::answered(ours, line)),
            Secrecy::Offer(policy, before) => {
                let keys = |profile| {
                    with_key(profile, &|line| Some(Keys::answering(profile, line, before)))
                };
                let secure = keys(SECURE);
                match policy {
                    Srtp::Required => secure.or_else(|| keys(PLAIN)),
                    Srtp::Offered | Srtp::Off => secure.or_else(plain),
                }
            }
        }
    }

    /// Nothing plain would do.
    pub fn needs_keys(self) -> bool {
        matches!(self, Secrecy::Offer(Srtp::Required, _) | Secrecy::Answer(Some(_)))
    }
}

#[cfg(test)]
#[path = "crypto_tests.rs"]
mod tests;
