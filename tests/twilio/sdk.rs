//! The double of Twilio's API is one that Twilio's own SDK takes for Twilio's
//! (`tests/twilio/sdk/run`).

use floorkeeper::transport::twilio::signature;
use tokio::process::Command;

use crate::api::{ACCOUNT, Twilio, token};

#[tokio::test]
#[ignore = "needs the SDK: tests/twilio/sdk/run installs it"]
async fn the_official_sdk_takes_the_double() {
    let twilio = Twilio::start().await;
    let python = std::env::var("FLOORKEEPER_PYTHON").unwrap_or("python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/twilio/sdk/check.py");
    let address = format!("http://{}", twilio.address);
    let ran = Command::new(python).args([script, &address, ACCOUNT, &token()]).output().await;
    let ran = ran.expect("python runs");
    let (said, wrong) = (String::from_utf8(ran.stdout), String::from_utf8(ran.stderr));
    assert!(ran.status.success(), "{}", wrong.unwrap());
    let sid = twilio.placed(0).await.sid;
    let form = [("CallSid".to_owned(), sid), ("CallStatus".to_owned(), "busy".to_owned())];
    let url = "https://voice.example.com/v1/twilio/outgoing/7/status";
    assert_eq!(said.unwrap().trim(), signature::sign(&token(), url, &form));
}
