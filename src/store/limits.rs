//! How much a store promises at most, and the checks before a promise. Pure.

use std::sync::{PoisonError, RwLock};

use super::record::{Offer, UnixMs};
use super::refused::{Place, Refused};

/// The bounds (A-127, C-007, C-022): overflow is refused, nothing that was accepted is pushed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open callbacks of everybody.
    pub records: u64,
    /// Open callbacks of one tenant.
    pub tenant: u64,
    /// Open callbacks to one destination, over all tenants; one tenant has one at most.
    pub destination: u64,
    /// Bytes of all open callbacks.
    pub bytes: u64,
    /// Bytes of one.
    pub record_bytes: u64,
    /// The most attempts that may be asked for.
    pub attempts: u32,
    /// The furthest expiry.
    pub horizon_ms: u64,
    /// The longest lease of a claim.
    pub lease_ms: u64,
    /// The longest wait between two attempts.
    pub backoff_ms: u64,
    /// Dead letters kept; the oldest goes first, and is counted.
    pub dead: u64,
    /// Finished ones kept; the oldest goes first, and is counted.
    pub kept: u64,
    /// Requests waiting for the store.
    pub inbox: usize,
    /// Open handoffs of everybody.
    pub handoffs: u64,
    /// Open handoffs of one tenant.
    pub handoffs_tenant: u64,
    /// Open handoffs to one target.
    pub handoffs_target: u64,
    /// Ended handoffs kept.
    pub handoffs_kept: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            records: 10_000,
            tenant: 1_000,
            destination: 2,
            bytes: 32 << 20,
            record_bytes: 8 << 10,
            attempts: 10,
            horizon_ms: 14 * 24 * 3_600_000,
            lease_ms: 15 * 60_000,
            backoff_ms: 6 * 3_600_000,
            dead: 1_000,
            kept: 10_000,
            inbox: 1_024,
            handoffs: 200,
            handoffs_tenant: 50,
            handoffs_target: 20,
            handoffs_kept: 10_000,
        }
    }
}

/// The bounds of a store that is open: how many callbacks may be open is changed while it is.
#[derive(Debug)]
pub(super) struct InForce(RwLock<Limits>);

impl InForce {
    pub fn new(limits: Limits) -> InForce {
        InForce(RwLock::new(limits))
    }

    /// As they are now.
    pub fn now(&self) -> Limits {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// So many callbacks may be open from now on, in all and of one tenant.
    pub fn bound(&self, records: u64) {
        let mut limits = self.0.write().unwrap_or_else(PoisonError::into_inner);
        (limits.records, limits.tenant) = (records, records);
    }
}

/// What is in use, as far as one offer is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Open callbacks of everybody.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Open callbacks of the offer's tenant.
    pub tenant: u64,
    /// Open callbacks to the offer's destination.
    pub destination: u64,
}

impl Limits {
    /// There is room for this one.
    pub fn room(&self, used: Usage, offer: &Offer) -> Result<(), Refused> {
        if used.tenant >= self.tenant {
            return Err(Refused::TenantFull);
        }
        if used.destination >= self.destination {
            return Err(Refused::DestinationFull);
        }
        if used.records >= self.records {
            return Err(Refused::Full(Place::Records));
        }
        if used.bytes + offer.bytes() > self.bytes {
            return Err(Refused::Bytes);
        }
        Ok(())
    }

    /// The offer is one that could be kept.
    pub fn check(&self, offer: &Offer, now_ms: UnixMs) -> Result<(), Refused> {
        self.check_texts(offer)?;
        if offer.born_ms > now_ms {
            return Err(Refused::bad("born_ms", "lies in the future"));
        }
        if offer.consent.at_ms > now_ms {
            return Err(Refused::bad("consent.at_ms", "lies in the future"));
        }
        if now_ms > offer.expires_ms {
            return Err(Refused::Expired { at_ms: offer.expires_ms });
        }
        if offer.not_before_ms > offer.expires_ms {
            return Err(Refused::bad("not_before_ms", "lies behind expires_ms"));
        }
        if offer.expires_ms - now_ms > self.horizon_ms {
            let problem = format!("lies more than {} ms ahead", self.horizon_ms);
            return Err(Refused::bad("expires_ms", problem));
        }
        if !(1..=self.attempts).contains(&offer.attempts_max) {
            let problem = format!("is not within 1 to {}", self.attempts);
            return Err(Refused::bad("attempts_max", problem));
        }
        if let Some(quiet) = offer.quiet
            && (quiet.from_minute >= 1_440
                || quiet.to_minute >= 1_440
                || quiet.utc_offset_minutes.unsigned_abs() > 14 * 60)
        {
            return Err(Refused::bad("quiet", "is no time of day of any place"));
        }
        Ok(())
    }

    fn check_texts(&self, offer: &Offer) -> Result<(), Refused> {
        let needed: [(&'static str, &str, usize); 5] = [
            ("destination", &offer.destination, 128),
            ("consent.asked", &offer.consent.asked, 2_048),
            ("consent.said", &offer.consent.said, 2_048),
            ("authorisation", &offer.authorisation, 256),
            ("key", offer.key.as_ref().map_or("-", |key| &key.name), 255),
        ];
        let optional: [(&'static str, &str, usize); 7] = [
            ("tenant", &offer.tenant, 128),
            ("why", &offer.why, 4_096),
            ("language", &offer.language, 35),
            ("call", &offer.call, 128),
            ("incarnation", &offer.incarnation, 128),
            ("consent.call", &offer.consent.call, 128),
            ("key", offer.key.as_ref().map_or("", |key| &key.digest), 128),
        ];
        for (field, text, _) in needed {
            if text.trim().is_empty() {
                return Err(Refused::bad(field, "is missing"));
            }
        }
        for (field, text, most) in needed.into_iter().chain(optional) {
            if text.len() > most {
                return Err(Refused::bad(field, format!("is longer than {most} bytes")));
            }
            // PostgreSQL keeps no NUL, and nobody means one.
            if text.contains('\0') {
                return Err(Refused::bad(field, "has a NUL in it"));
            }
        }
        if offer.destination.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Refused::bad("destination", "has blanks in it"));
        }
        if offer.bytes() > self.record_bytes {
            let problem = format!("takes more than {} bytes", self.record_bytes);
            return Err(Refused::bad("offer", problem));
        }
        Ok(())
    }

    /// A claim's length, as asked.
    pub fn check_lease(&self, lease_ms: u64) -> Result<(), Refused> {
        if (1..=self.lease_ms).contains(&lease_ms) {
            return Ok(());
        }
        Err(Refused::bad("lease_ms", format!("is not within 1 to {}", self.lease_ms)))
    }
}
