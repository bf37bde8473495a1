//! The floor: a bare RTP echo that decodes G.711, encodes it again, sends it back, and no more.
//!
//! A call has a socket and a task of its own, as with the real server; the line of text that tells
//! where it hears is all of its signalling.

use floorkeeper::codec::g711::Law;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::bare::{self, Echo, Floor};
use crate::sound::{CYCLE_FRAMES, SPEECH_FRAMES};
use crate::{FRAME_SAMPLES, HEADER};

pub const FLOOR: Floor = Floor { variable: "FLOORKEEPER_SIP_FLOOR", share: "agent" };

/// Serves as long as the benchmark runs.
pub fn serve(echo: Echo) {
    bare::serve(async |listener| {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, echo));
        }
    });
}

/// Until the caller closes the line.
async fn converse(mut stream: TcpStream, echo: Echo) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    if stream.write_all(format!("{port}\n").as_bytes()).await.is_err() {
        return;
    }
    let (mut buffer, mut closed) = ([0; 2_048], [0; 1]);
    let (mut samples, mut packet, mut sequence) = (Vec::new(), Vec::new(), 0_u16);
    loop {
        let came = tokio::select! {
            came = socket.recv_from(&mut buffer) => came,
            _ = stream.read(&mut closed) => return,
        };
        let Ok((length, from)) = came else { continue };
        let Some((head, sound)) = buffer[..length].split_at_checked(HEADER) else { continue };
        samples.clear();
        Law::Mu.decode(sound, &mut samples);
        // A caller's timestamps count from the beginning of a cycle.
        let timestamp = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let position = timestamp as usize / FRAME_SAMPLES % CYCLE_FRAMES;
        let agent = SPEECH_FRAMES..2 * SPEECH_FRAMES;
        if echo == Echo::AgentShare && !agent.contains(&position) {
            continue;
        }
        packet.clear();
        packet.extend_from_slice(head);
        packet[2..4].copy_from_slice(&sequence.to_be_bytes());
        sequence = sequence.wrapping_add(1);
        Law::Mu.encode(&samples, &mut packet);
        let _ = socket.try_send_to(&packet, from);
    }
}
