//! What the tests share.

pub(crate) mod bench;
pub(crate) mod driven;
pub(crate) mod run;

use metrics::Group;
use model::{Pattern, Phase};
use sim::Pair;
use std::sync::Arc;
use uuid::Uuid;
use wire::native::{Data, Grant, Grants, Params, Reception};

pub(crate) const TOKEN: [u8; 16] = *b"a session's key!";
pub(crate) const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);

pub(crate) fn phase(pattern: Pattern, transfer: u64) -> Phase {
    Phase { pattern, transfer, ..Phase::default() }
}

pub(crate) fn reception(phase: &Phase) -> Reception {
    let params = Arc::new(Params::of(phase, Group(1)));
    let grants = Arc::new(Grants::new(None));
    grants.insert(TOKEN, Arc::new(Grant::new(params, 1, phase.transfer, false)));
    Reception::new(grants, Arc::default(), 0)
}

pub(crate) fn client(phase: &Phase, rude: bool) -> Box<Data> {
    let params = Arc::new(Params::of(phase, Group(1)));
    Box::new(Data::client(params, TOKEN, ID, 0, phase.transfer, rude))
}

/// A data connection as a phase wants it, client to greeter.
pub(crate) fn pair(phase: &Phase, rude: bool) -> Pair {
    Pair::accepted(client(phase, rude), &mut reception(phase))
}
