//! Running measurements and servers in a browser: content, access, and that a real browser shows
//! it.

use crate::html::hostile_run;
use crate::support::browser::{Browser, Tab};
use crate::support::files::Scratch;
use crate::support::{Done, Line, PATIENCE, Proc, Server, netcaliper, number, serve, tcp, text};
use serde_json::Value;
use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was printed to be opened: host and port, and what comes behind the first slash.
pub(crate) fn live(proc: &Proc) -> (String, String) {
    let line = proc.hears("live view at http://");
    let (at, rest) = line.split("http://").nth(1).unwrap().split_once('/').unwrap();
    (at.to_owned(), rest.to_owned())
}

/// One request, and all of its answer.
pub(crate) fn exchange(at: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// All of an answer to a request with these headers.
fn ask(at: &str, request: &str, headers: &str) -> String {
    exchange(at, &format!("{request} HTTP/1.1\r\n{headers}\r\n"))
}

fn get(at: &str, path: &str) -> String {
    ask(at, &format!("GET {path}"), "Host: localhost\r\n")
}

#[track_caller]
pub(crate) fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1
}

pub(crate) struct Feed(BufReader<TcpStream>);

impl Feed {
    pub(crate) fn open(at: &str) -> Feed {
        Feed::asked(at, "")
    }

    /// The feed of a page that was away, which has heard `last`.
    fn again(at: &str, last: &str) -> Feed {
        Feed::asked(at, &format!("Last-Event-ID: {last}\r\n"))
    }

    fn asked(at: &str, headers: &str) -> Feed {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Without chunks: HTTP/1.0 ends with the connection.
        let request = format!("GET /events HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Feed(BufReader::new(stream))
    }

    /// The next message; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let (mut line, mut beat) = (String::new(), false);
        loop {
            line.clear();
            // A message that was cut off is none, as for a browser.
            if self.0.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return None;
            }
            match line.strip_prefix("data: ") {
                // A sign of life.
                Some(_) if beat => beat = false,
                Some(data) => return Some(serde_json::from_str(data).unwrap()),
                None => beat |= line.starts_with("event: beat") || line.starts_with("event:beat"),
            }
        }
    }

    /// All messages that are left.
    fn rest(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// The feed of a page, and its first message, when the run has said what it is: the page is there
/// before.
fn known(at: &str) -> (Feed, Value) {
    loop {
        let mut feed = Feed::open(at);
        let first = feed.next().unwrap();
        assert!(first.get("from").is_none() && first["units"]["bps"].is_object(), "all of it: {first}");
        if first["title"].as_str().unwrap().starts_with("netcaliper tcp") {
            return (feed, first);
        }
    }
}

/// How many points a plot of a message has in its first series, those left out with them.
fn points(message: &Value, plot: &str) -> Option<usize> {
    let series = message["plots"][plot]["series"].get(0)?;
    Some(series["keep"].as_u64().unwrap_or(0) as usize + series["x"].as_array()?.len())
}

/// A run that goes on until it is told to end.
fn endless(target: String) -> Line {
    tcp(target).args("-t 600s -i 50ms -P 2 -b 5M --bidir -q --web 127.0.0.1:0")
}

/// Ends a run before its time.
#[track_caller]
fn interrupt(run: Proc) -> Done {
    run.signal("INT");
    run.wait().exits(130)
}

#[test]
fn a_run_is_told_while_it_goes_on_and_its_end_too() {
    let server = serve("");
    let run = endless(server.at()).spawn();
    let (at, _) = live(&run);
    let (mut feed, first) = known(&at);
    let (mut version, mut most, mut grown) = (first["v"].as_u64().unwrap(), 0, 0);
    while grown < 3 {
        let next = feed.next().unwrap();
        let (known, now) = (next["from"].as_u64(), next["v"].as_u64().unwrap());
        // What is new, or all of it where a version was missed.
        assert!(if known.is_some() {
            known == Some(version) && now == version + 1
        } else {
            now > version + 1
        });
        assert_eq!(next["ended"], false);
        version = now;
        if let Some(n) = points(&next, "goodput").filter(|_| known.is_some()) {
            grown += u32::from(n > most);
            most = most.max(n);
        }
    }
    // A later page gets all data at once.
    let late = Feed::open(&at).next().unwrap();
    assert!(points(&late, "goodput").unwrap() >= most && late.get("from").is_none());
    run.signal("INT");
    let last = feed.rest().pop().expect("the end is told");
    assert_eq!(last["ended"], true);
    assert!(last["parts"]["verdict"].as_str().unwrap().starts_with("Run interrupted"), "{last}");
    run.wait().exits(130);
}

#[test]
fn only_this_hosts_browsers_read_runs_and_history_and_nobody_writes() {
    let scratch = Scratch::new();
    let (store, file) = (scratch.file("runs.sqlite"), scratch.file("page.html"));
    let server = serve("");
    tcp(server.at()).args("-n 1M").arg("--store").arg(&store).run().exits(0);
    netcaliper("report").arg("1").arg("--store").arg(&store).arg("--html").arg(&file).run().exits(0);
    let run = endless(server.at()).arg("--store").arg(&store).spawn();
    let (at, _) = live(&run);
    let page = get(&at, "/");
    assert!(body(&page).contains("/live.js"));
    for (name, value) in [
        ("content-security-policy", "default-src 'none'; script-src 'self'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert!(page.contains(&format!("{name}: {value}")), "{page}");
    }
    assert!(!page.to_lowercase().contains("access-control-allow"), "{page}");
    for host in ["Host: netcaliper.example:80\r\n", "Host: 127.0.0.1.example\r\n", ""] {
        let answer = ask(&at, "GET /run.json", host);
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("browsers of its own host"),
            "{host}{answer}"
        );
    }
    let cross = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    assert!(ask(&at, "GET /events", cross).starts_with("HTTP/1.1 403"));
    for request in ["POST /", "PUT /history/1", "DELETE /history/1", "OPTIONS /events"] {
        let answer = ask(&at, request, "Host: localhost\r\nContent-Length: 0\r\n");
        assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("read only"), "{request}: {answer}");
    }
    assert!(ask(&at, "HEAD /", "Host: [::1]\r\n").ends_with("\r\n\r\n"));
    let outcome: Value = serde_json::from_str(body(&get(&at, "/run.json"))).unwrap();
    assert_eq!(outcome["schema"], "netcaliper.outcome.v2");
    assert!(body(&get(&at, "/report")).contains("<h2>Figures</h2>"));
    // Saved runs are listed, and shown as report shows them.
    assert!(body(&get(&at, "/history?verb=tcp&sort=target")).contains("<a href=\"/history/1\">1</a>"));
    assert!(!body(&get(&at, "/history?verb=ping")).contains("/history/1\""));
    for (path, status, said) in [
        ("/compare?before=1", 400, "two runs are compared"),
        ("/compare?before=1&after=9", 404, "holds no run 9"),
        ("/trend?verb=tcp", 400, "a trend is that of a verb and a target"),
    ] {
        let answer = get(&at, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(said), "{answer}");
    }
    assert!(body(&get(&at, "/history.json")).contains("\"verb\": \"tcp\""));
    assert_eq!(body(&get(&at, "/history/1")), std::fs::read_to_string(&file).unwrap());
    for path in ["/elsewhere", "/history/77", "/history/x", "/history/-1", "/history/1%20OR%201"] {
        assert!(get(&at, path).starts_with("HTTP/1.1 404"), "{path}");
    }
    interrupt(run);
}

#[test]
fn a_token_is_wanted_where_others_can_reach_the_page() {
    let server = serve("");
    let run = tcp(server.at()).args("-t 600s -b 1M -q --web 0.0.0.0:0").spawn();
    let (at, rest) = live(&run);
    let at = format!("127.0.0.1:{}", at.rsplit(':').next().unwrap());
    let token = rest.strip_prefix("?token=").unwrap();
    assert_eq!(token.len(), 32, "{rest}");
    for path in ["/", "/events", "/run.json", "/?token=", "/?token=0123456789abcdef0123456789abcdef"] {
        let answer = get(&at, path);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("wants its token"), "{path}: {answer}");
    }
    // The address leads to the page, and leaves a cookie instead of itself.
    let welcome = get(&at, &format!("/?token={token}"));
    assert!(welcome.starts_with("HTTP/1.1 303") && welcome.contains("location: /\r\n"), "{welcome}");
    let cookie = welcome.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    body(&ask(&at, "GET /", &format!("Host: x\r\nCookie: {cookie}\r\n")));
    body(&ask(&at, "GET /run.json", &format!("Host: x\r\nAuthorization: Bearer {token}\r\n")));
    let done = interrupt(run);
    assert!(!done.out.contains(token), "what may be kept does not hold it: {}", done.tell());
}

#[test]
fn what_cannot_be_had_is_said_before_the_run() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = tcp("127.0.0.1:1").arg("--web").arg(&address).run().exits(1).says_one_sentence();
    done.complains(&["cannot show the run at", "--web 0 takes any port"]);
    tcp("127.0.0.1:1")
        .args("--web lab2")
        .run()
        .exits(2)
        .complains(&["'lab2' is not an address to be seen at"]);
}

#[test]
fn whoever_holds_connections_open_holds_up_nothing() {
    let server = serve("");
    let run = tcp(server.at()).args("-n 4M -P 2 -q --web 0 --web-linger 600s").spawn();
    let (at, _) = live(&run);
    // Half a request each, and a feed that is never read.
    let held: Vec<TcpStream> = (0..300)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(&at).ok()?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").ok()?;
            Some(stream)
        })
        .collect();
    run.hears("Run complete");
    // They are given up in time, and others are answered again.
    crate::support::eventually("the page answers", || {
        TcpStream::connect(&at).ok().is_some_and(|mut stream| {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).is_ok() && answer.starts_with(b"HTTP/1.1 200")
        })
    });
    drop(held);
    run.signal("INT");
    run.wait().exits(0);
}

#[test]
fn a_server_shows_who_is_served() {
    let server = serve("-i 100ms --web 127.0.0.1:0");
    let (at, _) = live(&server.proc);
    let mut feed = Feed::open(&at);
    let mut sessions = String::new();
    // The part is told when it has changed.
    let mut until = |words: &[&str]| loop {
        let message = feed.next().expect("the feed goes on");
        if let Some(html) = message["parts"]["sessions"].as_str() {
            sessions = html.to_owned();
        }
        if words.iter().all(|word| sessions.contains(word)) {
            return (sessions.clone(), message);
        }
    };
    let (_, first) = until(&["No client is connected"]);
    assert_eq!(first["kind"], "serve");
    let client = tcp(server.at()).args("-t 600s -i 50ms -P 2 -b 5M -q").spawn();
    let (shown, _) = until(&["In progress", "running", "tcp to server, 2 connections", "Mbit/s", "2 of 2"]);
    assert!(!shown.contains("<h3>Over</h3>"), "{shown}");
    interrupt(client);
    let (shown, _) = until(&["No client is connected", "<h3>Over</h3>"]);
    assert!(shown.contains("ended, "), "{shown}");
    assert!(body(&get(&at, "/metrics")).contains("netcaliper_server_connections_opened_total 2"));
    server.proc.signal("INT");
    assert_eq!(feed.rest().pop().expect("the end is told")["ended"], true);
    server.proc.wait().exits(0);
}

/// A relay in front of a page that can be cut: all connections end, and new ones are refused until
/// it is mended.
struct Cable {
    port: u16,
    whole: Arc<AtomicBool>,
}

impl Cable {
    fn to(at: String) -> Cable {
        let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = door.local_addr().unwrap().port();
        let whole = Arc::new(AtomicBool::new(true));
        let state = Arc::clone(&whole);
        std::thread::spawn(move || {
            for local in door.incoming() {
                let Ok(local) = local else { continue };
                // A request meanwhile finds the port closed.
                if !state.load(Ordering::Acquire) {
                    continue;
                }
                let Ok(remote) = TcpStream::connect(&at) else { continue };
                for (from, to) in [(&local, &remote), (&remote, &local)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = Arc::clone(&state);
                    from.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
                    std::thread::spawn(move || {
                        let mut piece = [0; 16_384];
                        while state.load(Ordering::Acquire) {
                            match from.read(&mut piece) {
                                Ok(0) => break,
                                Ok(n) if to.write_all(&piece[..n]).is_err() => break,
                                Err(e) if !matches!(e.kind(), WouldBlock | TimedOut) => break,
                                _ => {}
                            }
                        }
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Cable { port, whole }
    }
}

/// The points of a series that a page has after these messages, as its script puts them together.
fn put_together(messages: &[Value], plot: &str) -> Vec<(String, String)> {
    let mut points: Vec<(String, String)> = Vec::new();
    for message in messages {
        let Some(series) = message["plots"][plot]["series"].get(0) else { continue };
        points.truncate(series["keep"].as_u64().unwrap_or(0) as usize);
        let values = |axis: &str| series[axis].as_array().unwrap().iter().map(Value::to_string);
        points.extend(values("x").zip(values("y")).collect::<Vec<_>>());
    }
    points
}

#[test]
fn a_page_that_was_away_is_told_all_of_it_and_nothing_twice() {
    let server = serve("");
    let run = endless(server.at()).spawn();
    let (at, _) = live(&run);
    let cable = Cable::to(at.clone());
    let local = format!("127.0.0.1:{}", cable.port);
    let (mut feed, first) = known(&local);
    let mut messages = vec![first];
    messages.extend((0..2).map(|_| feed.next().unwrap()));
    cable.whole.store(false, Ordering::Release);
    // What is under way still comes; then it ends.
    messages.extend(feed.rest());
    // The run goes on meanwhile, and others see it.
    let mut witness = Feed::open(&at);
    let known = put_together(&messages, "goodput").len();
    let heard = messages.last().unwrap()["v"].as_u64().unwrap();
    // More than the one version that could be told by what is new in it.
    let missed = |now: &Value| {
        now["v"].as_u64().unwrap() > heard + 1 && points(now, "goodput").is_some_and(|n| n >= known + 10)
    };
    while !missed(&witness.next().unwrap()) {}
    cable.whole.store(true, Ordering::Release);
    // As an EventSource comes back: it says what it has heard last.
    let mut feed = Feed::again(&local, &heard.to_string());
    let first = feed.next().unwrap();
    assert!(first.get("from").is_none(), "all of it is told: {}", first["from"]);
    assert_eq!(first["run"], messages[0]["run"]);
    messages.push(first);
    messages.extend((0..2).map(|_| feed.next().unwrap()));
    let shown = put_together(&messages, "goodput");
    let xs: Vec<f64> = shown.iter().map(|(x, _)| x.parse().unwrap()).collect();
    assert!(xs.windows(2).all(|pair| pair[0] < pair[1]), "none twice, in order: {xs:?}");
    // And none is missing: a page that was there all the time has the same. A slow page is
    // told the next one as a whole, so the two may have to meet at a later one.
    let all = loop {
        let all = Feed::open(&at).next().unwrap();
        while messages.last().unwrap()["v"].as_u64() < all["v"].as_u64() {
            messages.push(feed.next().unwrap());
        }
        if messages.last().unwrap()["v"] == all["v"] {
            break all;
        }
    };
    let (shown, all) = (put_together(&messages, "goodput"), put_together(&[all], "goodput"));
    assert!(all.len() >= known + 10, "{} of {known}", all.len());
    assert_eq!(shown, all);
    interrupt(run);
}

/// Whether the page shows that its run has ended.
const ENDED: &str = "document.querySelector('#state').textContent.startsWith('the run ended')";

/// Nothing that a peer says becomes markup.
#[track_caller]
fn shows_texts_of_peers(tab: &mut Tab, server: &Server) {
    let scratch = Scratch::new();
    let outcome = tcp(server.at()).args("-t 300ms -i 100ms -P 3 -b 2M --bidir --json").run().exits(0).out;
    let saved = hostile_run(&scratch, &outcome);
    let shown = netcaliper("report").arg(saved).args("-q --web 0 --web-linger 600s").spawn();
    let (at, _) = live(&shown);
    tab.open(&format!("http://{at}/"));
    tab.until(ENDED);
    let dom = tab.says("document.documentElement.outerHTML");
    let dom = text(&dom);
    assert!(dom.contains("&lt;img src=x"), "it is there, as text: {dom}");
    assert!(!dom.contains("<img") && !dom.contains("data-owned"), "{dom}");
    assert!(dom.contains("data-plots="), "the page's own script ran");
}

/// Figures and plot, while the run goes on.
#[track_caller]
fn shows_a_run(tab: &mut Tab, server: &Server) {
    let run = endless(server.at()).spawn();
    let (at, _) = live(&run);
    tab.open(&format!("http://{at}/"));
    tab.until("document.querySelectorAll('.tiles li').length > 1 && document.querySelector('#timeline .wide .dot, #timeline .wide .line[d*=L]') !== null");
    assert_eq!(tab.says("document.querySelector('.verdict').textContent.startsWith('Running: ')"), true);
    assert_eq!(tab.says("document.querySelector('.state').classList.contains('live')"), true);
    tab.until("document.querySelectorAll('figure[data-name]').length > 3");
    tab.fits("live page");
    interrupt(run);
}

/// A reader of the history sorts, filters, compares and sees a trend.
#[track_caller]
fn shows_the_history(tab: &mut Tab, server: &Server) {
    let scratch = Scratch::new();
    let store = scratch.file("runs.sqlite");
    let kept = |line: Line| line.arg("--store").arg(&store).run().exits(0);
    for rate in ["5M", "20M"] {
        kept(tcp(server.at()).args("-t 600ms -i 50ms -P 2").args(&format!("-b {rate}")));
    }
    kept(netcaliper("ping").arg(server.at()).args("-n 20"));
    let shown =
        netcaliper("report").arg("1").args("-q --web 0 --web-linger 600s").arg("--store").arg(&store).spawn();
    let (at, _) = live(&shown);
    let ids = "[...document.querySelectorAll('.runs tbody th a')].map(a => a.textContent).join()";
    tab.open(&format!("http://{at}/history"));
    assert_eq!(tab.says(ids), "3,2,1", "the latest first");
    tab.fits("history");
    let click = |tab: &mut Tab, what: &str, there: &str| {
        tab.says(&format!("document.body.dataset.old = 1; document.querySelector('{what}').click()"));
        tab.until(&format!("document.readyState === 'complete' && !document.body.dataset.old && {there}"));
    };
    click(tab, "a[href=\"/history?sort=run\"]", "true");
    assert_eq!(tab.says(ids), "1,2,3");
    tab.says("document.querySelector('select[name=verb]').value = 'tcp'");
    click(tab, ".ask button", "location.search.includes('verb=tcp')");
    assert_eq!(tab.says(ids), "1,2", "sorted as before, of one verb");
    tab.says("document.querySelector('input[name=to]').value = '2020-01-01'");
    click(tab, ".ask button", "true");
    assert_eq!(tab.says("document.querySelector('main').textContent.includes('No such run')"), true);
    tab.open(&format!("http://{at}/history"));
    tab.says("document.querySelector('[name=before][value=\"1\"]').click(); document.querySelector('[name=after][value=\"2\"]').click()");
    click(tab, "form[action=\"/compare\"] button", "location.pathname === '/compare'");
    let told = tab.says("document.querySelector('main').textContent");
    let told = told.as_str().unwrap();
    assert!(told.contains("goodput to server") && told.contains("-b 5M -> 20M"), "{told}");
    assert_eq!(tab.says("document.querySelectorAll('#timeline .wide .dashed').length > 0"), true);
    tab.fits("compare");
    tab.open(&format!("http://{at}/history?verb=tcp"));
    click(tab, "a.trend", "location.pathname === '/trend'");
    tab.until("document.querySelectorAll('figure[data-ready]').length > 1");
    assert_eq!(tab.says(ids), "2,1");
    tab.fits("trend");
    shown.signal("INT");
    // A report has nothing to end in order.
    assert_eq!(shown.wait().code, None);
}

/// The result of a run that has ended, with all of its plots.
#[track_caller]
fn shows_the_end(tab: &mut Tab, server: &Server) {
    let run = tcp(server.at()).args("-t 1s -i 100ms -P 3 -b 2M --bidir -q --web 0 --web-linger 600s").spawn();
    let (at, _) = live(&run);
    tab.open(&format!("http://{at}/"));
    tab.until(ENDED);
    let figures = number(&tab.says("document.querySelectorAll('figure').length"));
    assert!(figures >= 5, "{figures} plots");
    assert_eq!(tab.says("Number(document.body.dataset.plots)"), figures, "every plot is alive");
    assert_eq!(tab.says("document.querySelectorAll('figure[data-ready=\"1\"]').length"), figures);
    assert_eq!(tab.says("document.body.textContent.includes('Run complete: ')"), true);
    // A plot is drawn when it comes into sight.
    tab.says("document.querySelector('#plot-goodput').scrollIntoView()");
    tab.until("document.querySelector('#plot-goodput .area .line').getAttribute('d').startsWith('M')");
    run.hears("Run complete");
    run.signal("INT");
    run.wait().exits(0);
}

#[test]
fn a_browser_shows_runs_and_the_history() {
    let Some(browser) = Browser::find("web::a_browser_shows_runs_and_the_history") else { return };
    let (server, mut tab) = (serve(""), browser.tab());
    tab.look((800, 600), "screen", "light");
    shows_texts_of_peers(&mut tab, &server);
    shows_the_end(&mut tab, &server);
    tab.look((1400, 900), "screen", "light");
    shows_a_run(&mut tab, &server);
    tab.look((1400, 900), "screen", "light");
    shows_the_history(&mut tab, &server);
}
