//! An answer of HTTP: a complete body, or one in pieces.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// The answer to a request.
pub(crate) type Answer = Response<Pieces>;

pub(crate) enum Pieces {
    /// All of it; nothing once it is sent.
    Whole(Option<Bytes>),
    /// Server-sent events, until their sender is dropped.
    Feed(Receiver<Bytes>),
}

pub(crate) fn whole(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let body = Pieces::Whole((!body.is_empty()).then_some(body));
    let mut answer = Answer::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Answer with a text that is part of the binary.
pub(crate) fn text(kind: &'static str, body: &'static str) -> Answer {
    whole(StatusCode::OK, kind, Bytes::from_static(body.as_bytes()))
}

pub(crate) fn feed(pieces: Receiver<Bytes>) -> Answer {
    let mut answer = Answer::new(Pieces::Feed(pieces));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Pieces::Whole(body) => Poll::Ready(body.take().map(Frame::data).map(Ok)),
            Pieces::Feed(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(Frame::data).map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Pieces::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Pieces::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Pieces::Feed(_) => SizeHint::default(),
        }
    }
}
