//! Reports of the sessions' states, for the live view and pages.

use super::Server;
use metrics::Tally;
use model::{Event, Served, Standing, Totals, Traffic};
use transport::{Context, Link};

/// Traffic of a session, as the sum of its tallies.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    latest: Traffic,
    total: Traffic,
    open: u64,
    opened: u64,
    errors: u64,
}

impl Moved {
    /// Traffic of a finished session.
    pub(super) fn of(totals: &Totals) -> Self {
        Moved { total: totals.traffic, opened: totals.opened, errors: totals.errors(), ..Moved::default() }
    }
}

impl Server {
    /// A session stands in another way from now on.
    pub(super) fn stands(&mut self, cx: &Context<'_>, link: Link, standing: Standing) {
        if let Some(client) = self.clients.get_mut(&link) {
            client.standing = cx.clock.wall(cx.now);
        }
        self.stand(link, standing);
    }

    /// Reports the state of a session, if there is one: a client without a request has none.
    pub(super) fn stand(&mut self, link: Link, standing: Standing) {
        if !self.plan.config.sessions {
            return;
        }
        let Some(client) = self.clients.get(&link) else { return };
        let (number, phase, moved) = match (&client.held, &client.proposal) {
            (Some(held), _) => (held.granting.session, &held.granting.phase, held.moved),
            (None, Some(proposal)) => (0, &**proposal, Moved::default()),
            (None, None) => return,
        };
        let served = Served {
            number,
            peer: client.path.peer,
            run: client.run,
            phase: Some(Box::new(phase.clone())),
            standing,
            since: client.standing,
            latest: if standing.is_over() { Traffic::default() } else { moved.latest },
            total: moved.total,
            open: if standing.is_over() { 0 } else { moved.open },
            opened: moved.opened,
            errors: moved.errors,
        };
        self.driver.ask(Event::Served(Box::new(served)));
    }

    /// An interval of a session is over.
    pub(super) fn moved(&mut self, link: Link, traffic: Traffic, tally: &Tally) {
        let Some(held) = self.clients.get_mut(&link).and_then(|v| v.held.as_mut()) else { return };
        let moved = &mut held.moved;
        moved.latest = traffic;
        moved.total.add_later(&traffic);
        moved.open = tally.open;
        moved.opened += tally.opened;
        moved.errors += tally.errors();
        self.stand(link, Standing::Running);
    }
}
