//! Requests and their answers.

use crate::answer::{Answer, feed, text, whole};
use crate::guard::{Guard, Pass};
use crate::history::{Refusal, failed, written};
use crate::shown::SharedPage;
use crate::update::Update;
use crate::{Metrics, history};
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Request, StatusCode};
use report::{METRICS_TYPE, REPORT_SCRIPT, REPORT_STYLE, page_policy};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Most pages with a feed at once; further ones are refused.
const MOST_FOLLOWERS: usize = 32;
/// Interval of comments on the feed of an idle page, which keep its connection open.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("page/live.html");
const SCRIPT: &str = include_str!("page/live.js");
const STYLE: &str = include_str!("page/live.css");
const ICON: &str = include_str!("page/icon.svg");
/// Rights of our own pages: the resources of this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) shown: Option<Arc<SharedPage>>,
    pub(crate) metrics: Option<Metrics>,
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Answers requests that the guard admits, and sets the security headers of every answer.
pub(crate) async fn respond<B>(site: &Site, request: &Request<B>) -> Answer {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    let mut answer = match site.guard.admit(request.method(), request.headers(), query) {
        Ok(Pass::In) => page(site, uri.path(), query).await,
        Ok(Pass::Welcome(cookie)) => {
            // A page goes on without the token in its address; every other request is answered at
            // once.
            let mut answer = if uri.path() == "/" { onward() } else { page(site, uri.path(), query).await };
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                answer.headers_mut().insert(SET_COOKIE, cookie);
            }
            answer
        }
        Err((status, sentence)) => refused((status, sentence.to_owned())),
    };
    let headers = answer.headers_mut();
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
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
    answer
}

fn onward() -> Answer {
    let mut answer = whole(StatusCode::SEE_OTHER, PLAIN, Bytes::new());
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    answer
}

async fn page(site: &Site, path: &str, query: &str) -> Answer {
    if let ("/metrics", Some(metrics)) = (path, &site.metrics) {
        let mut body = Vec::new();
        return match metrics(&mut body) {
            Ok(()) => whole(StatusCode::OK, METRICS_TYPE, body.into()),
            Err(_) => refused(failed("the metrics cannot be written")),
        };
    }
    let Some(shown) = &site.shown else {
        return refused((StatusCode::NOT_FOUND, "metrics are at /metrics".to_owned()));
    };
    let shown = Arc::clone(shown);
    let asked = history::query_fields(query);
    match path {
        "/" => text(HTML, PAGE),
        "/live.js" => text(JAVASCRIPT, SCRIPT),
        "/live.css" => text(CSS, STYLE),
        "/report.js" => text(JAVASCRIPT, REPORT_SCRIPT),
        "/report.css" => text(CSS, REPORT_STYLE),
        "/icon.svg" => text("image/svg+xml", ICON),
        "/events" => events(shown),
        "/run.json" => {
            made(JSON, None, move || written(|body| report::write_outcome(&shown.outcome(), body))).await
        }
        "/report" => {
            let policy = Some(page_policy());
            made(HTML, policy, move || written(|body| report::write_html(&shown.outcome(), body))).await
        }
        "/history" => made(HTML, None, move || history::list(shown.store.as_deref(), asked)).await,
        "/trend" => made(HTML, None, move || history::trend(shown.store.as_deref(), &asked)).await,
        "/compare" => made(HTML, None, move || history::compare(shown.store.as_deref(), &asked)).await,
        "/history.json" => made(JSON, None, move || history::json(shown.store.as_deref())).await,
        _ => match path.strip_prefix("/history/").map(str::to_owned) {
            Some(id) => {
                made(HTML, Some(page_policy()), move || history::run(shown.store.as_deref(), &id)).await
            }
            None => refused((StatusCode::NOT_FOUND, "there is no such page: begin at /".to_owned())),
        },
    }
}

/// The page's feed, as server-sent events: all parts at first, then the changed ones, at most once
/// a second.
fn events(shown: Arc<SharedPage>) -> Answer {
    if shown.followers() >= MOST_FOLLOWERS {
        let sentence = format!("{MOST_FOLLOWERS} pages are open already: close one");
        return refused((StatusCode::SERVICE_UNAVAILABLE, sentence));
    }
    let (sender, pieces) = mpsc::channel(1);
    let following = shown.follow();
    tokio::spawn(async move {
        shown.refresh().await;
        // A browser that has left ends its feed.
        let _ = follow(following, &sender).await;
    });
    feed(pieces)
}

async fn follow(
    mut following: watch::Receiver<Arc<Update>>,
    feed: &mpsc::Sender<Bytes>,
) -> Result<(), mpsc::error::SendError<Bytes>> {
    let mut known = None;
    loop {
        let update = Arc::clone(&following.borrow_and_update());
        if update.version > 0 && known != Some(update.version) {
            let mut event = format!("id: {}\n", update.version);
            update.since(known).lines().for_each(|line| event.extend(["data: ", line, "\n"]));
            event.push('\n');
            feed.send(event.into()).await?;
            known = Some(update.version);
            if update.last {
                return Ok(());
            }
        }
        let (changed, left) = (pin!(following.changed()), pin!(feed.closed()));
        match timeout(SIGN_OF_LIFE, either(changed, left)).await {
            Ok(Some(Ok(()))) => {}
            Ok(_) => return Ok(()),
            // A page hears of events only, not of comments.
            Err(_) => feed.send(Bytes::from_static(b"event: beat\ndata: 1\n\n")).await?,
        }
    }
}

/// The output of `changed`; `None` when the browser has `left` before.
async fn either<T>(
    mut changed: Pin<&mut impl Future<Output = T>>,
    mut left: Pin<&mut impl Future<Output = ()>>,
) -> Option<T> {
    poll_fn(|cx| match left.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => changed.as_mut().poll(cx).map(Some),
    })
    .await
}

/// A page or a document that takes a while to write.
async fn made(
    kind: &'static str,
    policy: Option<String>,
    write: impl FnOnce() -> Result<Vec<u8>, Refusal> + Send + 'static,
) -> Answer {
    let mut answer = match tokio::task::spawn_blocking(write).await {
        Ok(Ok(body)) => whole(StatusCode::OK, kind, body.into()),
        Ok(Err(refusal)) => refused(refusal),
        Err(_) => refused(failed("the page cannot be made")),
    };
    if let Some(policy) = policy.and_then(|policy| HeaderValue::from_str(&policy).ok()) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

fn refused((status, sentence): Refusal) -> Answer {
    whole(status, PLAIN, (sentence + "\n").into())
}
