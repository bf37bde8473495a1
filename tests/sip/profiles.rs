//! Who answers, by what was dialled and by what the trunk says (issue 7.5).

use serde_json::{Value, json};

use crate::phone::{Phone, serve};
use crate::rig::Rig;

const AGENTS: [&str; 4] = [
    "agent.day.numbers=[\"+15550199\", \"200\"]",
    "agent.night.numbers=[\"201\"]",
    "agent.default.metadata.queue=\"{{call.param.X-Queue-Name}}\"",
    "agent.default.metadata.dialled=\"{{call.to}}\"",
];

async fn answered(rig: &Rig, dialled: &str, more: &[&str]) -> Value {
    let mut phone = Phone::new(rig).await;
    phone.uri = phone.uri.replace("agent@", &format!("{dialled}@"));
    let offer = phone.offer("0", "sendrecv");
    phone.invite(&offer, more).await;
    phone.answered().await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() > 0).await;
    let calls = rig.get("/v1/calls").await.json();
    phone.hang_up().await;
    rig.quiet().await;
    let newest = calls["calls"].as_array().unwrap().iter().max_by_key(|call| {
        call["id"].as_str().unwrap().rsplit('-').next().unwrap().parse::<u64>().unwrap()
    });
    let id = newest.unwrap()["id"].as_str().unwrap().to_owned();
    rig.get(&format!("/v1/calls/{id}")).await.json()
}

#[tokio::test]
async fn what_is_dialled_chooses_who_answers() {
    let rig = serve(&AGENTS).await;
    for (dialled, more, agent) in [
        ("+15550199", &[][..], "day"),
        ("200", &[], "day"),
        ("201", &[], "night"),
        ("day", &[], "day"),
        ("999", &[], "default"),
        ("200", &["X-Agent: night"], "night"),
        ("200", &["X-Agent: nobody"], "day"),
    ] {
        let call = answered(&rig, dialled, more).await;
        assert_eq!(call["agent"], agent, "{dialled} {more:?}: {call:#}");
        assert_eq!(call["metadata"]["dialled"], dialled);
    }
    let call = answered(&rig, "200", &["x-queue-name: sales"]).await;
    assert_eq!(call["metadata"], json!({"queue": "sales", "dialled": "200"}));
}
