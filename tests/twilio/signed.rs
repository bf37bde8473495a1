//! Who may bring calls: whoever has a key, or signs with the account's token.

use floorkeeper::transport::twilio::signature::sign;
use serde_json::json;

use crate::double::Double;
use crate::gate::{ring, stream_of};
use crate::http;
use crate::rig::Rig;

/// A variable that every process has stands for the token: setting one here would race with others.
const SIGNED: [&str; 2] =
    ["twilio.auth_token_env=\"PATH\"", "public.url=\"https://voice.example.com\""];

fn token() -> String {
    std::env::var("PATH").unwrap()
}

async fn knock(rig: &Rig, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut stream = http::knock_at(rig.serving.address, path, headers).await;
    http::answer(&mut stream).await.status
}

/// Issue 7: `X-Twilio-Signature` on the stream, as the provider makes it in one of three ways.
#[tokio::test]
async fn a_stream_that_is_signed_wrongly_is_refused() {
    let rig = Rig::start(&SIGNED).await;
    for url in [
        "wss://voice.example.com/v1/twilio",
        "wss://voice.example.com/v1/twilio/",
        "wss://voice.example.com:443/v1/twilio",
    ] {
        let good = sign(&token(), url, &[]);
        assert_eq!(knock(&rig, "/v1/twilio", &[("X-Twilio-Signature", &good)]).await, 101, "{url}");
    }
    let wrong_token = sign("another", "wss://voice.example.com/v1/twilio", &[]);
    let wrong_host = sign(&token(), "wss://voice.example.org/v1/twilio", &[]);
    for wrong in [wrong_token.as_str(), &wrong_host, "", "no base64", "AAAA"] {
        let headers = [("X-Twilio-Signature", wrong)];
        assert_eq!(knock(&rig, "/v1/twilio", &headers).await, 403, "{wrong}");
    }
    assert_eq!(knock(&rig, "/v1/twilio", &[]).await, 403, "without keys it has to be signed");
    rig.quiet().await;

    // Without public.url the request's own host is what was called.
    let rig = Rig::start(&SIGNED[..1]).await;
    let good = sign(&token(), &format!("wss://{}/v1/twilio", rig.serving.address), &[]);
    assert_eq!(knock(&rig, "/v1/twilio", &[("X-Twilio-Signature", &good)]).await, 101);
    assert_eq!(knock(&rig, "/v1/twilio", &[("X-Twilio-Signature", &wrong_host)]).await, 403);
    rig.quiet().await;
}

/// The webhook's signature is one of its form as well; the stream it asks for needs none.
#[tokio::test]
async fn a_webhook_is_signed_with_its_form() {
    let rig = Rig::start(&SIGNED).await;
    let form =
        [("CallSid", "CA1"), ("From", "+15550100"), ("To", "+15550199"), ("Caller", "+15550100")];
    let mut form = form.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let url = "https://voice.example.com/v1/twilio/voice?agent=shop";
    let good = sign(&token(), url, &form);
    let answer = ring(&rig, "?agent=shop", &[("X-Twilio-Signature", &good)]).await;
    let stream = stream_of(&answer);
    let path = stream.strip_prefix("wss://voice.example.com").expect("its public address");
    let local = format!("ws://{}{path}", rig.serving.address);
    let mut caller = Double::at(&local, json!({})).await;
    caller.stop().await;
    form[1].1 = "+15550101".to_owned();
    let other_form = sign(&token(), url, &form);
    for wrong in [other_form.as_str(), "AAAA"] {
        let refused = ring(&rig, "?agent=shop", &[("X-Twilio-Signature", wrong)]).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "invalid_signature"));
    }
    assert_eq!(ring(&rig, "", &[]).await.status, 403);
    rig.quiet().await;
}

/// A token that the server was not given lets nobody in.
#[tokio::test]
async fn without_its_token_nothing_is_taken_for_signed() {
    let unset = "twilio.auth_token_env=\"FLOORKEEPER_NO_SUCH_TOKEN\"";
    let rig = Rig::start(&[unset]).await;
    let good = sign("", &format!("wss://{}/v1/twilio", rig.serving.address), &[]);
    assert_eq!(knock(&rig, "/v1/twilio", &[("X-Twilio-Signature", &good)]).await, 403);
    assert_eq!(knock(&rig, "/v1/twilio", &[]).await, 403);
    assert_eq!(ring(&rig, "", &[]).await.code(), "no_auth_token");
    rig.quiet().await;
}

/// A provider may sign its requests in a header that is not ours (Vonage sends a token of its own):
/// the key in the address is what counts, and a wrong one is helped by no header.
#[tokio::test]
async fn a_key_in_the_address_stands_beside_a_header_of_the_providers() {
    let file = std::env::temp_dir().join(format!("floorkeeper-vonage-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\n").unwrap();
    let rig = Rig::start(&[&format!("auth.keys_file=\"{}\"", file.display())]).await;
    std::fs::remove_file(&file).unwrap();
    let token = [("Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln")];
    let ours = [("Authorization", "Bearer key-of-ada")];
    for dialect in ["vonage", "telnyx", "twilio"] {
        let path = format!("/v1/{dialect}");
        assert_eq!(knock(&rig, &format!("{path}?key=key-of-ada"), &token).await, 101, "{dialect}");
        for (query, headers) in [
            ("", &token),
            ("?key=key-of-bob", &token),
            ("?key=", &token),
            ("?key=%0A", &token),
            ("?key=key-of-bob", &ours),
            ("?key=%0A", &ours),
        ] {
            let status = knock(&rig, &format!("{path}{query}"), headers).await;
            assert_eq!(status, 401, "{path}{query} {headers:?}");
        }
    }
    assert_eq!(ring(&rig, "?key=key-of-ada", &token).await.status, 200);
    assert_eq!(ring(&rig, "?key=key-of-bob", &token).await.status, 401);
    let ledger = rig.ledger_with("call", "key-of-ada").await;
    assert_eq!(ledger["tenants"]["ada"]["offered"], 4, "{ledger:#}");
}

/// Where keys are on and nothing is signed, a key in the address or in a header opens.
#[tokio::test]
async fn a_key_opens_streams_and_the_webhook() {
    let file = std::env::temp_dir().join(format!("floorkeeper-twilio-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\n").unwrap();
    let keys = format!("auth.keys_file=\"{}\"", file.display());
    let rig = Rig::start(&[&keys]).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(knock(&rig, "/v1/twilio", &[]).await, 401);
    assert_eq!(knock(&rig, "/v1/twilio?key=key-of-bob", &[]).await, 401);
    assert_eq!(knock(&rig, "/v1/twilio?key=key-of-ada", &[]).await, 101);
    let bearer = [("Authorization", "Bearer key-of-ada")];
    assert_eq!(knock(&rig, "/v1/telnyx", &bearer).await, 101);
    assert_eq!(ring(&rig, "", &[]).await.status, 401);
    let answer = ring(&rig, "?key=key-of-ada&town=Ulm", &[]).await;
    let stream = stream_of(&answer);
    assert!(!answer.text().contains("key-of-ada"), "the key stays here");
    let mut caller = Double::at(&stream, json!({})).await;
    caller.stop().await;
    rig.quiet().await;
    let ledger = rig.ledger_with("call", "key-of-ada").await;
    assert_eq!(ledger["tenants"]["ada"]["offered"], 3, "{ledger:#}");
}
