//! Frames: a kind, a length, so many bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::transport::twilio::{Said, json};

/// Kind and length.
const HEADER_BYTES: usize = 3;
/// Twice what 20 ms at the highest rate have.
const PAYLOAD_MAX: usize = 16 * 1024;

const HANG_UP: u8 = 0x00;
const UUID: u8 = 0x01;
const KEY: u8 = 0x03;
const ERROR: u8 = 0xff;
/// Sound at each of these rates, from this kind on.
const SOUND: u8 = 0x10;
const RATES_HZ: [u32; 9] = [8_000, 12_000, 16_000, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000];

/// What an error of Asterisk's is when its caller has hung up.
const CALLER_HUNG_UP: u8 = 0x01;

/// How sound is written: 16-bit little-endian samples, at a rate that the kind tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    byte: u8,
    rate_hz: u32,
}

impl Default for Kind {
    /// What every Asterisk speaks.
    fn default() -> Kind {
        Kind { byte: SOUND, rate_hz: 8_000 }
    }
}

impl Kind {
    fn of(byte: u8, payload_bytes: usize) -> Option<Kind> {
        // One version of Asterisk wrote 16 kHz with the kind of 12 kHz: 20 ms of it give it away.
        if (byte, payload_bytes) == (SOUND + 1, 640) {
            return Some(Kind { byte, rate_hz: 16_000 });
        }
        let rate_hz = *RATES_HZ.get(usize::from(byte.checked_sub(SOUND)?))?;
        Some(Kind { byte, rate_hz })
    }

    /// Samples a second.
    pub fn rate_hz(self) -> u32 {
        self.rate_hz
    }

    /// A frame of this sound.
    pub(super) fn frame(self, samples: &[i16]) -> Bytes {
        let mut frame = BytesMut::with_capacity(HEADER_BYTES + samples.len() * 2);
        frame.put_u8(self.byte);
        // A frame is 20 ms, which at no rate are more bytes than a length can tell.
        frame.put_u16(u16::try_from(samples.len() * 2).unwrap_or(u16::MAX));
        samples.iter().for_each(|sample| frame.put_i16_le(*sample));
        frame.freeze()
    }
}

/// Asterisk is to hang up.
pub(super) fn hang_up() -> Bytes {
    Bytes::from_static(&[HANG_UP, 0, 0])
}

/// What Asterisk says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Frame {
    Uuid([u8; 16]),
    Key(char),
    Sound(Kind, Bytes),
    /// The caller has gone.
    HangUp,
    /// Something broke at the other end.
    Error,
    /// Of a kind that is not known here.
    Unknown,
    /// Of a known kind, and none of it.
    Malformed,
}

/// The frame is longer than any that makes sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Takes the next whole frame.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Frame>, TooLong> {
    let Some((&[kind, high, low], _)) = buffer.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > PAYLOAD_MAX {
        return Err(TooLong);
    }
    if buffer.len() < HEADER_BYTES + length {
        return Ok(None);
    }
    buffer.advance(HEADER_BYTES);
    Ok(Some(read(kind, buffer.split_to(length).freeze())))
}

fn read(kind: u8, payload: Bytes) -> Frame {
    match kind {
        HANG_UP => Frame::HangUp,
        UUID => payload[..].try_into().map_or(Frame::Malformed, Frame::Uuid),
        KEY => key(&payload).map_or(Frame::Malformed, Frame::Key),
        ERROR if payload[..] == [CALLER_HUNG_UP] => Frame::HangUp,
        ERROR => Frame::Error,
        _ => match Kind::of(kind, payload.len()) {
            None => Frame::Unknown,
            Some(_) if payload.len() % 2 == 1 || payload.is_empty() => Frame::Malformed,
            Some(kind) => Frame::Sound(kind, payload),
        },
    }
}

fn key(payload: &[u8]) -> Option<char> {
    match json::key(std::str::from_utf8(payload).ok()?)? {
        Said::Key(key) => Some(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(bytes: &[u8]) -> Result<Option<Frame>, TooLong> {
        take(&mut BytesMut::from(bytes))
    }

    #[test]
    fn each_kind_is_read() {
        let uuid = [7; 16];
        assert_eq!(took(&[&[1, 0, 16][..], &uuid].concat()), Ok(Some(Frame::Uuid(uuid))));
        assert_eq!(took(&[3, 0, 1, b'#']), Ok(Some(Frame::Key('#'))));
        assert_eq!(took(&[0, 0, 0]), Ok(Some(Frame::HangUp)));
        assert_eq!(took(&[0xff, 0, 1, 1]), Ok(Some(Frame::HangUp)));
        assert_eq!(took(&[0xff, 0, 1, 4]), Ok(Some(Frame::Error)));
        assert_eq!(took(&[0xff, 0, 0]), Ok(Some(Frame::Error)));
        for wrong in
            [&[1, 0, 1, 7][..], &[3, 0, 1, b'x'], &[3, 0, 0], &[0x10, 0, 1, 7], &[0x12, 0, 0]]
        {
            assert_eq!(took(wrong), Ok(Some(Frame::Malformed)), "{wrong:?}");
        }
        for unknown in [0x02, 0x04, 0x0f, 0x19, 0xfe] {
            assert_eq!(took(&[unknown, 0, 1, 7]), Ok(Some(Frame::Unknown)), "{unknown}");
        }
        assert_eq!(took(&[0x10, 0x40, 1]), Err(TooLong));
    }

    #[test]
    fn the_kind_tells_the_rate() {
        let rate = |byte, bytes| Kind::of(byte, bytes).map(Kind::rate_hz);
        assert_eq!(rate(0x10, 320), Some(8_000));
        assert_eq!((rate(0x11, 480), rate(0x11, 640)), (Some(12_000), Some(16_000)));
        assert_eq!((rate(0x12, 640), rate(0x15, 1_764)), (Some(16_000), Some(44_100)));
        assert_eq!((rate(0x18, 7_680), rate(0x19, 2), rate(0x0f, 2)), (Some(192_000), None, None));
        let frame = Kind::of(0x12, 4).unwrap().frame(&[1, -2]);
        assert_eq!(frame[..], [0x12, 0, 4, 1, 0, 0xfe, 0xff]);
    }

    /// However the bytes are cut, the same frames come out.
    #[test]
    fn frames_may_come_in_pieces() {
        let bytes = [&[3, 0, 1, b'1'][..], &[0x10, 0, 2, 1, 2], &[0x99, 0, 0], &[3, 0, 1, b'2']];
        let (mut buffer, mut taken) = (BytesMut::new(), Vec::new());
        for byte in bytes.concat() {
            buffer.put_u8(byte);
            taken.extend(take(&mut buffer).unwrap());
        }
        let sound = Frame::Sound(Kind::default(), Bytes::from_static(&[1, 2]));
        assert_eq!(taken, [Frame::Key('1'), sound, Frame::Unknown, Frame::Key('2')]);
    }
}
