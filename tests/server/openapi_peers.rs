//! What `/v1/realtime/calls` answers, held against its description.

use floorkeeper::id::Stage;

use crate::client::Client;
use crate::http::{self, Answer};
use crate::openapi::Checker;
use crate::rig::{Rig, enabled, eventually};

const PATH: &str = "/v1/realtime/calls";
const ONE: &str = "/v1/realtime/calls/{id}";

/// What a browser offers, as far as it matters.
const OFFER: &str = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\n\
    m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
    a=ice-pwd:abcdefghijklmnopqrstuvwx\r\na=fingerprint:sha-256 \
    00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F\
    \r\na=setup:actpass\r\na=mid:0\r\na=sendrecv\r\na=rtcp-mux\r\n\
    a=rtpmap:111 opus/48000/2\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n\
    c=IN IP4 0.0.0.0\r\na=mid:1\r\na=sctp-port:5000\r\n";

const KIND: [(&str, &str); 1] = [("Content-Type", "application/sdp")];

async fn offer(rig: &Rig, more: &[(&str, &str)], sdp: &str) -> Answer {
    let headers: Vec<(&str, &str)> = KIND.iter().chain(more).copied().collect();
    http::ask(rig.serving.address, "POST", PATH, &headers, sdp).await
}

async fn again(rig: &Rig, location: &str, sdp: &str) -> Answer {
    http::ask(rig.serving.address, "POST", location, &KIND, sdp).await
}

/// Every documented answer but those to a missing key and a missing content type.
pub async fn answers(checker: &mut Checker) {
    let limits = ["limits.call.slots=1", "limits.call.queue=1", "limits.call.max_wait_ms=300"];
    let rig = Rig::start(&limits).await;
    checker.check("POST", PATH, &offer(&rig, &[], "v=0").await);
    checker.check("POST", PATH, &offer(&rig, &[("Origin", "null")], OFFER).await);
    let accepted = offer(&rig, &[], OFFER).await;
    checker.check("POST", PATH, &accepted);
    let queued = || async {
        eventually("one waits", || match rig.counts(Stage::Call).queued {
            1 => Ok(()),
            other => Err(format!("{other} do")),
        })
        .await;
        offer(&rig, &[], OFFER).await
    };
    let (waited, refused) = tokio::join!(offer(&rig, &[], OFFER), queued());
    checker.check("POST", PATH, &waited);
    checker.check("POST", PATH, &refused);
    let location = accepted.header("location").unwrap();
    beside(&rig, checker, location).await;
    for sdp in [&*OFFER.replace("ufrag:abcd", "ufrag:efgh"), "v=0"] {
        checker.check("POST", ONE, &again(&rig, location, sdp).await);
    }
    let hang_up = format!("{location}/hangup");
    let hung_up = http::ask(rig.serving.address, "POST", &hang_up, &[], "").await;
    checker.check("POST", "/v1/realtime/calls/{id}/hangup", &hung_up);
    rig.quiet().await;
    beside(&rig, checker, location).await;
    checker.check("POST", ONE, &again(&rig, location, OFFER).await);
    checker.check("POST", ONE, &again(&rig, "/v1/realtime/calls/call-99", OFFER).await);
    resumed(&rig, checker).await;
    rig.put("/v1/drain", &enabled(true)).await;
    checker.check("POST", PATH, &offer(&rig, &[], OFFER).await);
    let without = Rig::start(&["webrtc.listen=\"\""]).await;
    checker.check("POST", PATH, &offer(&without, &[], OFFER).await);
}

/// A kept call that is not this transport's, and then no call at all.
async fn resumed(rig: &Rig, checker: &mut Checker) {
    let mut client = Client::at(&format!("{}?resumable=true", rig.url())).await;
    let ticket = client.until("floorkeeper.resume").await;
    let path = format!("{PATH}?resume={}", ticket["token"].as_str().unwrap());
    let offered = || http::ask(rig.serving.address, "POST", &path, &KIND, OFFER);
    checker.check("POST", PATH, &offered().await);
    client.hang_up().await;
    rig.quiet().await;
    checker.check("POST", PATH, &offered().await);
}

/// Beside a call as many as may be, and one more; and one that is none.
async fn beside(rig: &Rig, checker: &mut Checker, location: &str) {
    let address = rig.serving.address;
    let names = [location.rsplit('/').next().unwrap(), "call-99"];
    let mut there = Vec::new();
    for name in [names[1], names[0], names[0], names[0], names[0], names[0]] {
        let path = format!("/v1/realtime?call_id={name}");
        let mut stream = http::knock_at(address, &path, &[]).await;
        checker.check("GET", "/v1/realtime", &http::answer(&mut stream).await);
        there.push(stream);
    }
}
