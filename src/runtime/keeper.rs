//! What time does to the gates: expiry at its own time, and once a second the ceilings that follow
//! evidence, the pressure on the call gate and the changes on trial.

use std::sync::Arc;
use std::time::Duration;

use super::service::Service;
use crate::admission::pressure::{Hearing, Listener, StageLoad};
use crate::config::UpstreamPressure;
use crate::id::Stage;
use crate::time::Timestamp;

/// Stages whose refused turns press the call gate.
const LISTENED_TO: [Stage; 3] = [Stage::Recognition, Stage::Model, Stage::Synthesis];
const SECOND: Duration = Duration::from_secs(1);

/// Keeps time for all gates of a service.
pub struct Keeper {
    service: Arc<Service>,
    listener: Option<Listener>,
    next_second: Timestamp,
}

impl Keeper {
    /// A keeper that has seen nothing yet.
    pub fn new(service: Arc<Service>) -> Keeper {
        let hearing = |full| Hearing { full, ..Hearing::default() };
        let listener = match service.config.admission.upstream_pressure {
            UpstreamPressure::Off => None,
            UpstreamPressure::Refusals => Some(Listener::new(hearing(false))),
            UpstreamPressure::Full => Some(Listener::new(hearing(true))),
        };
        let next_second = service.clock.now() + SECOND;
        let mut keeper = Keeper { service, listener, next_second };
        // What is refused from now on is news.
        keeper.hear();
        keeper
    }

    /// Works for as long as the process lives.
    pub async fn run(mut self) {
        loop {
            let due = self.expire().map_or(self.next_second, |due| due.min(self.next_second));
            // Strictly later than the deadline expires.
            let wake_at = self.service.clock.instant(due + Duration::from_millis(1));
            tokio::select! {
                () = tokio::time::sleep_until(wake_at) => {}
                () = self.service.gates.queued() => {}
            }
            if self.service.clock.now() >= self.next_second {
                self.second();
                self.next_second = self.service.clock.now() + SECOND;
            }
        }
    }

    /// Ends what is due at every gate; says when something is due next.
    fn expire(&self) -> Option<Timestamp> {
        let gates = &self.service.gates;
        gates.stages().filter_map(|stage| gates.expire(stage)).min()
    }

    fn second(&mut self) {
        for stage in self.service.gates.stages() {
            self.service.gates.second(stage);
        }
        self.service.changes.settle_trials(&self.service.gates);
        self.hear();
    }

    /// The call gate listens to its stages.
    fn hear(&mut self) {
        let Some(listener) = &mut self.listener else { return };
        let gates = &self.service.gates;
        let now = gates.now();
        let load = |stage| {
            gates.look(stage, |gate| StageLoad::of(&gate.counts(now), gate.ledger().total()))
        };
        let loads: Vec<StageLoad> = LISTENED_TO.into_iter().filter_map(load).collect();
        let before = gates.look(Stage::Call, |gate| gate.counts(now).pressure);
        let pressure = listener.hear(now, &loads);
        if before != Some(pressure) {
            tracing::info!(
                pressure = pressure.label(),
                "new calls give way to the turns of accepted ones"
            );
            gates.set_pressure(Stage::Call, pressure);
        }
    }
}
