//! What is asked for, and what is answered.

use crate::guard::{Guard, Pass};
use crate::history::{Refusal, failed};
use crate::shown::Shown;
use crate::{Metrics, history};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{self, Stream};
use report::{METRICS_TYPE, REPORT_SCRIPT, REPORT_STYLE, page_policy};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Pages that are kept up to date at once; more are told to come later.
const MOST_FOLLOWERS: usize = 32;
/// How often an idle page hears that the connection stands.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("page/live.html");
const SCRIPT: &str = include_str!("page/live.js");
const STYLE: &str = include_str!("page/live.css");
const ICON: &str = include_str!("page/icon.svg");
/// What our own pages may do: what this server gives them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What answers are made of.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) shown: Option<Arc<Shown>>,
    pub(crate) metrics: Option<Arc<dyn Metrics>>,
}

/// All that is answered.
pub(crate) fn router(site: Site) -> Router {
    let site = Arc::new(site);
    let mut router = Router::new();
    if site.metrics.is_some() {
        router = router.route("/metrics", get(metrics));
    }
    if let Some(shown) = &site.shown {
        let pages = Router::new()
            .route("/", get(|| async { text("text/html; charset=utf-8", PAGE) }))
            .route("/live.js", get(|| async { text(JAVASCRIPT, SCRIPT) }))
            .route("/live.css", get(|| async { text("text/css; charset=utf-8", STYLE) }))
            .route("/report.js", get(|| async { text(JAVASCRIPT, REPORT_SCRIPT) }))
            .route("/report.css", get(|| async { text("text/css; charset=utf-8", REPORT_STYLE) }))
            .route("/icon.svg", get(|| async { text("image/svg+xml", ICON) }))
            .route("/events", get(events))
            .route("/run.json", get(run_json))
            .route("/report", get(report_page))
            .route("/history", get(past))
            .route("/history.json", get(past_json))
            .route("/history/{id}", get(past_run))
            .with_state(Arc::clone(shown));
        router = router.merge(pages);
    }
    let nothing = if site.shown.is_some() {
        "there is no such page: begin at /\n"
    } else {
        "metrics are at /metrics\n"
    };
    router
        .fallback(move || async move { (StatusCode::NOT_FOUND, nothing) })
        .layer(from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

fn text(kind: &'static str, body: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], body).into_response()
}

/// Lets in who may read, and says to every browser what it may do with the answer.
async fn guarded(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    let mut response = match site.guard.admit(request.method(), request.headers(), query) {
        Ok(Pass::In) => next.run(request).await,
        Ok(Pass::Welcome(cookie)) => {
            // A page goes on without the token in its address; whatever else is asked for is answered at once.
            let page = uri.path() == "/";
            let mut response = match page {
                true => (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response(),
                false => next.run(request).await,
            };
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
        Err((status, sentence)) => (status, format!("{sentence}\n")).into_response(),
    };
    let headers = response.headers_mut();
    let policy = headers.entry(CONTENT_SECURITY_POLICY);
    policy.or_insert(HeaderValue::from_static(POLICY));
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let mut body = Vec::new();
    match site.metrics.as_ref().map(|metrics| metrics.write(&mut body)) {
        Some(Ok(())) => ([(CONTENT_TYPE, METRICS_TYPE)], body).into_response(),
        _ => refused(failed("the metrics cannot be written")),
    }
}

/// The page's feed: all at first, then what has changed, at most once a second.
async fn events(State(shown): State<Arc<Shown>>) -> Response {
    if shown.followers() >= MOST_FOLLOWERS {
        let sentence = format!("{MOST_FOLLOWERS} pages are open already: close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    }
    Sse::new(feed(shown).await).into_response()
}

async fn feed(shown: Arc<Shown>) -> impl Stream<Item = Result<Event, Infallible>> {
    let following = shown.follow();
    shown.refresh().await;
    // What was sent last, and whether it was the end.
    stream::unfold((following, None, false), |(mut following, known, over)| async move {
        if over {
            return None;
        }
        let update = loop {
            let update = Arc::clone(&following.borrow_and_update());
            if update.version > 0 && known != Some(update.version) {
                break update;
            }
            match timeout(SIGN_OF_LIFE, following.changed()).await {
                Ok(changed) => changed.ok()?,
                Err(_) => {
                    // A page hears of events only, not of comments.
                    let beat = Event::default().event("beat").data("1");
                    return Some((Ok(beat), (following, known, over)));
                }
            }
        };
        let event = Event::default().id(update.version.to_string()).data(&*update.since(known));
        Some((Ok(event), (following, Some(update.version), update.last)))
    })
}

/// A page or a document that takes a while to write.
async fn made(
    kind: &'static str,
    policy: String,
    write: impl FnOnce() -> Result<Vec<u8>, Refusal> + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(write).await {
        Ok(Ok(body)) => {
            ([(CONTENT_TYPE, kind.to_owned()), (CONTENT_SECURITY_POLICY, policy)], body).into_response()
        }
        Ok(Err(refusal)) => refused(refusal),
        Err(_) => refused(failed("the page cannot be made")),
    }
}

const HTML: &str = "text/html; charset=utf-8";

async fn run_json(State(shown): State<Arc<Shown>>) -> Response {
    made("application/json", POLICY.to_owned(), move || {
        let mut body = Vec::new();
        report::write_outcome(&shown.outcome(), &mut body).map_err(failed)?;
        Ok(body)
    })
    .await
}

async fn report_page(State(shown): State<Arc<Shown>>) -> Response {
    made(HTML, page_policy(), move || {
        let mut body = Vec::new();
        report::write_html(&shown.outcome(), &mut body).map_err(failed)?;
        Ok(body)
    })
    .await
}

async fn past(State(shown): State<Arc<Shown>>) -> Response {
    made(HTML, POLICY.to_owned(), move || history::list(shown.store.as_deref())).await
}

async fn past_json(State(shown): State<Arc<Shown>>) -> Response {
    made("application/json", POLICY.to_owned(), move || history::json(shown.store.as_deref())).await
}

async fn past_run(State(shown): State<Arc<Shown>>, Path(id): Path<String>) -> Response {
    made(HTML, page_policy(), move || history::run(shown.store.as_deref(), &id)).await
}

fn refused((status, sentence): Refusal) -> Response {
    (status, sentence + "\n").into_response()
}
