//! A caller's messages, encoded once and shared by all calls.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Rate of the wire.
pub const RATE_HZ: u32 = 24_000;

/// Frames of sound as whole WebSocket frames.
pub fn appends(frames: &[Vec<i16>]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| text_frame(&append(frame))).collect()
}

/// A client's text message as it is on the wire. The mask is zero: the server unmasks all the same.
pub fn text_frame(payload: &str) -> Vec<u8> {
    client_frame(0x1, payload.as_bytes())
}

/// A client's frame of any kind.
pub fn client_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        medium @ 126..=0xFFFF => {
            frame.push(0x80 | 126);
            frame.extend((medium as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

fn append(samples: &[i16]) -> String {
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    format!(r#"{{"type":"input_audio_buffer.append","audio":"{}"}}"#, BASE64.encode(bytes))
}
