//! A further offer of the same peer: its network has changed, and its call goes on.

use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};

use super::offer::{BadOffer, Offer};

/// Offers of one call that wait to be answered.
const WAITING_MAX: usize = 4;

/// Where further offers of a call go in.
#[derive(Clone, Debug)]
pub struct Restarts(mpsc::Sender<Restart>);

/// The leg's end.
#[derive(Debug)]
pub(super) struct Offered {
    restarts: Restarts,
    offers: mpsc::Receiver<Restart>,
}

/// One of them, and where its answer goes.
#[derive(Debug)]
pub(super) struct Restart {
    pub offer: Offer,
    answered: oneshot::Sender<Result<String, BadOffer>>,
}

impl Restarts {
    /// The answer; `None`: the call is over.
    pub async fn answer(&self, offer: Offer) -> Option<Result<String, BadOffer>> {
        let (answered, answer) = oneshot::channel();
        self.0.send(Restart { offer, answered }).await.ok()?;
        answer.await.ok()
    }
}

impl Offered {
    pub fn new() -> Offered {
        let (sender, offers) = mpsc::channel(WAITING_MAX);
        Offered { restarts: Restarts(sender), offers }
    }

    pub fn restarts(&self) -> Restarts {
        self.restarts.clone()
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Restart>> {
        self.offers.poll_recv(cx)
    }
}

impl Restart {
    /// Whoever asked may have gone.
    pub fn answer(self, answer: Result<String, BadOffer>) {
        let _ = self.answered.send(answer);
    }
}
