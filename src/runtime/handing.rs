//! A call's driver while its caller is handed to a human: who is asked, and how the two are joined.

use tokio::sync::oneshot;

use super::bridge::{Bridge, Bridging, Parted, Relay, Waits};
use super::desk::{Desk, Way};
use super::driver::Driver;
use crate::call::HANDOFF_MAX;
use crate::config::Desk as Whom;
use crate::leg::{FromCaller, HangUp, ToCaller};

impl Driver {
    /// Who takes the caller by telephone; none: people at the operator page.
    pub(super) fn desk(&mut self) -> Option<Desk> {
        let transfer = self.leg.transfer().filter(|_| self.leg_is_up);
        // Who has brought the caller may be able to take them on.
        let onward = transfer.as_ref().and_then(|transfer| transfer.target());
        let sent = |transfer, target| {
            Some(Desk { way: Way::Refer(transfer), target, within: HANDOFF_MAX })
        };
        match (transfer, onward, self.service.config.outbound.desk.clone()) {
            (Some(transfer), Some(target), _) => sent(transfer, target),
            (Some(transfer), None, Some(Whom::Refer(target))) => sent(transfer, target),
            (_, _, Some(Whom::Bridge(target))) => {
                let within = self.service.config.outbound.handoff_max();
                Some(Desk { way: Way::Bridge(Box::new(self.bridge())), target, within })
            }
            (None, _, Some(Whom::Refer(_))) | (_, _, None) => None,
        }
    }

    fn bridge(&mut self) -> Bridge {
        let (announce, announced) = oneshot::channel();
        let (joins, human) = oneshot::channel();
        self.bridging = Some(Bridging { announce: Some(announce), human });
        let waits = Waits {
            service: self.service.clone(),
            record: self.record.clone(),
            brief: self.call.brief(),
            voice: self.call.settings().voice.clone(),
            tenant: self.service.tenants.find(Some(&self.promisee.tenant)),
        };
        Bridge { waits, announced, human: joins }
    }

    /// The caller has heard that they are being connected: whoever waits for that is told.
    pub(super) fn announce(&mut self) {
        if self.call.awaits_connection()
            && let Some(bridging) = &mut self.bridging
            && let Some(announce) = bridging.announce.take()
        {
            // Whoever was rung may have gone.
            let _ = announce.send(());
        }
    }

    /// The agent's part is over, the caller's is not.
    pub(super) fn join(&mut self, bridging: Bridging) {
        let (clock, rate_hz) = (self.service.clock, self.call.settings().out_rate_hz);
        self.record.note(clock.now(), "-> caller and desk are joined");
        self.relay = Some(Relay::new(clock, bridging.human, rate_hz));
    }

    /// What the caller says is the human's to hear.
    pub(super) fn hear_for_human(&mut self, said: FromCaller) {
        if let FromCaller::Audio(samples) = &said {
            self.spend(samples.len());
        }
        if self.relay.as_mut().is_some_and(|relay| relay.hear(said)) {
            self.leg_is_up = false;
            self.part_them(Parted::CallerLeft);
        }
    }

    /// Caller and human speak with each other no more: whoever is still there is told goodbye.
    pub(super) fn part_them(&mut self, how: Parted) {
        let Some(relay) = self.relay.take() else { return };
        let passed = relay.end();
        let line = format!("<- parted: {}; {passed}", how.label());
        self.record.note(self.service.clock.now(), &line);
        self.tell(ToCaller::HangUp { why: HangUp::HandedOver });
        self.stand();
    }
}
