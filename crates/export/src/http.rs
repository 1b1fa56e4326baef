//! One request over HTTP/1.1, with TLS where the URL wants it, within a time limit.
//!
//! Redirects are not followed, and of an answer no more than its beginning is read.

use crate::answer::{Answer, Response};
use crate::delivery::Stop;
use crate::{Entry, Receiver, Secret};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Bytes of an answer's body that are read.
const MOST_READ: usize = 8 << 10;
/// Time for that: an answer counts by its status.
const BODY: Duration = Duration::from_secs(1);
/// Interval at which a request looks at the wishes of the user.
const LOOK: Duration = Duration::from_millis(25);

/// The common part of all requests to one receiver.
pub(crate) struct Client {
    receiver: Receiver,
    headers: HeaderMap,
    tls: Option<TlsConnector>,
}

impl Client {
    /// A client for this receiver, which trusts the certificates of the system, or of
    /// SSL_CERT_FILE.
    ///
    /// # Errors
    /// One sentence when there are no certificates, or the secret is no header.
    pub(crate) fn new(receiver: &Receiver, secret: Option<&Secret>, version: &str) -> Result<Client, String> {
        let is_v6 = receiver.host().contains(':');
        let host = if is_v6 { format!("[{}]", receiver.host()) } else { receiver.host().to_owned() };
        let (_, kind) = receiver.kind().request();
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (HOST, format!("{host}:{}", receiver.port())),
            (CONTENT_TYPE, kind.to_owned()),
            (USER_AGENT, format!("netcaliper/{version}")),
        ] {
            headers.insert(name, HeaderValue::from_str(&value).map_err(|error| error.to_string())?);
        }
        if let Some(secret) = secret {
            let (name, value) = secret.header(receiver);
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap_or(AUTHORIZATION);
            // The error must not repeat the secret.
            let value = HeaderValue::from_str(&value);
            let mut value =
                value.map_err(|_| format!("the token for {receiver} cannot be sent in a header"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let tls = receiver.is_secure().then(connector).transpose()?;
        Ok(Client { receiver: receiver.clone(), headers, tls })
    }

    /// Sends an entry, and waits for the answer: at most `limit`, and until `stop` returns true.
    pub(crate) fn post(&self, entry: &Entry, limit: Duration, stop: Stop<'_>) -> Answer {
        let made = Builder::new_current_thread().enable_all().build();
        let runtime = match made {
            Ok(runtime) => runtime,
            Err(error) => return Answer::Later(format!("cannot send: {error}"), None),
        };
        let answer = runtime.block_on(async {
            let began = Instant::now();
            let mut exchange = pin!(self.exchange(entry, limit));
            loop {
                let left = limit.saturating_sub(began.elapsed());
                match timeout(left.min(LOOK), exchange.as_mut()).await {
                    Ok(Ok(response)) => return response.judge(),
                    Ok(Err(error)) => return Answer::Later(error.to_string(), None),
                    Err(_) if left.is_zero() || stop() => {
                        return Answer::Later("no answer in time".to_owned(), None);
                    }
                    Err(_) => {}
                }
            }
        });
        // A name that is still looked up is not waited for.
        runtime.shutdown_background();
        answer
    }

    async fn exchange(&self, entry: &Entry, limit: Duration) -> io::Result<Response> {
        let stream = self.connect(limit).await?;
        let Some(tls) = &self.tls else { return self.ask(entry, stream).await };
        let name = ServerName::try_from(self.receiver.host().to_owned()).map_err(io::Error::other)?;
        let stream = tls.connect(name, stream).await.map_err(|error| self.failed("TLS with", &error))?;
        self.ask(entry, stream).await
    }

    /// A connection to one of the host's addresses. Each has its part of the time.
    async fn connect(&self, limit: Duration) -> io::Result<TcpStream> {
        let (host, port) = (self.receiver.host(), self.receiver.port());
        let found = tokio::net::lookup_host((host, port)).await;
        let addresses: Vec<_> = found.map_err(|error| self.failed("cannot find", &error))?.collect();
        let part = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = io::Error::other("its name has no address");
        for address in addresses {
            match timeout(part, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::Error::other("no answer in time"),
            }
        }
        Err(self.failed("cannot connect to", &last))
    }

    fn failed(&self, what: &str, why: &dyn Display) -> io::Error {
        io::Error::other(format!("{what} {}:{}: {why}", self.receiver.host(), self.receiver.port()))
    }

    async fn ask<S>(&self, entry: &Entry, stream: S) -> io::Result<Response>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let broken = |error: hyper::Error| io::Error::other(with_cause(&error));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        let (method, _) = self.receiver.kind().request();
        let method = if method == "PUT" { Method::PUT } else { Method::POST };
        let mut request = Request::new(entry.body.clone());
        *request.method_mut() = method;
        *request.uri_mut() = entry.target.parse().map_err(io::Error::other)?;
        *request.headers_mut() = self.headers.clone();
        let response = sender.send_request(request).await.map_err(broken)?;
        let header = |name| {
            let value: Option<&HeaderValue> = response.headers().get(name);
            value.and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (location, retry_after) = (header(LOCATION), header(RETRY_AFTER));
        let status = response.status().as_u16();
        let mut body = Vec::new();
        // A body that does not arrive is no reason to send the entry again.
        let _ = timeout(BODY, read_beginning(response.into_body(), &mut body)).await;
        Ok(Response { status, location, retry_after, body })
    }
}

/// Reads the beginning of a body, as much of it as arrives.
async fn read_beginning(mut body: Incoming, read: &mut Vec<u8>) {
    while read.len() < MOST_READ {
        let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else { break };
        let Ok(data) = frame.into_data() else { break };
        read.extend_from_slice(&data[..data.len().min(MOST_READ - read.len())]);
    }
}

fn connector() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        return Err(
            "this host has no certificates to check a receiver's by: SSL_CERT_FILE names a file of them"
                .to_owned(),
        );
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

/// An error and its cause, which hyper names apart.
fn with_cause(error: &hyper::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
