//! The shown state: filled by the run, read by the pages. The run waits for neither.

use crate::Source;
use crate::update::Update;
use model::{Event, Outcome};
use report::{LivePage, LiveView};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use tokio::sync::{Mutex as Turn, watch};

#[derive(Default)]
pub(crate) struct SharedPage {
    page: Mutex<LivePage>,
    /// The run's own result, once it is over.
    result: Mutex<Option<Arc<Outcome>>>,
    latest: watch::Sender<Arc<Update>>,
    /// The source of the latest update: number of events, and the view.
    made: Turn<(Option<u64>, LiveView)>,
    pub(crate) store: Option<PathBuf>,
}

impl SharedPage {
    pub(crate) fn new(store: Option<PathBuf>) -> Self {
        SharedPage { store, ..SharedPage::default() }
    }

    /// Makes the latest update, unless nothing has changed. The update is made from a copy: the run
    /// goes on meanwhile.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let mut made = self.made.lock().await;
        let copy = {
            let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            if made.0 == Some(page.heard) {
                return;
            }
            page.clone()
        };
        let (heard, before) = (copy.heard, std::mem::take(&mut made.1));
        let version = self.latest.borrow().version + 1;
        let drawn = tokio::task::spawn_blocking(move || {
            let view = copy.view();
            (Update::new(version, &before, &view), view)
        });
        if let Ok((update, view)) = drawn.await {
            *made = (Some(heard), view);
            self.latest.send_replace(Arc::new(update));
        }
    }

    pub(crate) fn follow(&self) -> watch::Receiver<Arc<Update>> {
        self.latest.subscribe()
    }

    pub(crate) fn followers(&self) -> usize {
        self.latest.receiver_count()
    }

    /// The outcome: so far, or in the end.
    pub(crate) fn outcome(&self) -> Arc<Outcome> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        result.unwrap_or_else(|| {
            let copy = self.page.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Arc::new(copy.outcome())
        })
    }
}

/// Takes what waits, and then `latest`, to the page.
fn apply(page: &mut LivePage, waiting: &mut Vec<(Source, Event)>, latest: Option<(Source, &Event)>) {
    let mut enter = |of, event: &Event| match of {
        Source::Run => page.absorb(event),
        Source::Beside(protocol) => page.absorb_side(protocol, event),
        Source::Part(place) => page.absorb_part(place, event),
    };
    waiting.drain(..).for_each(|(of, event)| enter(of, &event));
    latest.into_iter().for_each(|(of, event)| enter(of, event));
}

/// The run's side.
pub(crate) struct View {
    shown: Arc<SharedPage>,
    /// Events that arrived while the page was being copied.
    pending: Vec<(Source, Event)>,
}

impl View {
    pub(crate) fn new(shown: Arc<SharedPage>) -> Self {
        View { shown, pending: Vec::new() }
    }

    /// Takes an event to the page, without a wait: events during a copy of the page are taken in
    /// with the next one.
    pub(crate) fn record(&mut self, of: Source, event: &Event) {
        let mut page = match self.shown.page.try_lock() {
            Ok(page) => page,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.pending.push((of, event.clone())),
        };
        apply(&mut page, &mut self.pending, Some((of, event)));
    }

    /// The run is over, and this is its result.
    pub(crate) fn end(&mut self, outcome: &Outcome) {
        let mut page = self.shown.page.lock().unwrap_or_else(PoisonError::into_inner);
        apply(&mut page, &mut self.pending, None);
        drop(page);
        *self.shown.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(outcome.clone()));
    }
}
