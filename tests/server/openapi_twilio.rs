//! What Twilio is answered about calls that it makes for us, held against its description. That a
//! stream is taken is shown in tests/twilio.

use floorkeeper::transport::twilio::signature;

use crate::http;
use crate::openapi::Checker;
use crate::rig::Rig;

/// A variable that every process has stands for the token.
const TOKEN_ENV: &str = "PATH";
const FORM: &str = "CallSid=CA1&CallStatus=busy";

pub async fn answers(checker: &mut Checker) {
    let rig = Rig::start(&[&format!("twilio.auth_token_env=\"{TOKEN_ENV}\"")]).await;
    let address = rig.serving.address;
    let fields = [("CallSid", "CA1"), ("CallStatus", "busy")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for what in ["answered", "status"] {
        let path = format!("/v1/twilio/outgoing/7/{what}");
        let token = std::env::var(TOKEN_ENV).unwrap();
        let signed = signature::sign(&token, &format!("https://{address}{path}"), &fields);
        for shown in [&*signed, "AAAA"] {
            let headers = [("X-Twilio-Signature", shown)];
            let answer = http::ask(address, "POST", &path, &headers, FORM).await;
            checker.check("POST", &format!("/v1/twilio/outgoing/{{call}}/{what}"), &answer);
        }
    }
    let (path, documented) = ("/v1/twilio/outgoing/7/stream", "/v1/twilio/outgoing/{call}/stream");
    checker.check("GET", documented, &http::ask(address, "GET", path, &[], "").await);
    for headers in [&[][..], &[("X-Twilio-Signature", "AAAA")]] {
        let mut stream = http::knock_at(address, path, headers).await;
        checker.check("GET", documented, &http::answer(&mut stream).await);
    }
}
