//! The faults that a local hub injects, as values and as text for the command line.
//!
//! Rule: a fault applies to one request. The first matching rule is used and counted down.

/// The routes of a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The search.
    Search,
    /// The listing of a repository's files.
    Listing,
    /// The metadata and link of a file, and the bytes of small files.
    Resolve,
    /// The bytes of large files, at the blob store's address.
    Blob,
    /// Any of these. Never the route of a received request.
    Any,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Close the connection without a response.
    Refuse,
    /// Close the connection after so many bytes of the body.
    Drop(u64),
    /// Send this status, with a `Retry-After` in seconds if given.
    Status(u16, Option<u64>),
    /// Announce and send so many bytes more (or fewer) than requested.
    Length(i64),
    /// Change one byte.
    WrongBytes,
    /// Send so many bytes per second.
    Slow(u64),
    /// Send nothing after so many bytes of the body, and keep the connection open.
    Silence(u64),
    /// Send the entire file whatever range was requested.
    IgnoreRange,
    /// Change the file just before the response, without a new commit.
    Change,
    /// Expire all links sent so far.
    ExpireLinks,
    /// Send this JSON whatever was requested. Has no text form.
    Json(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FaultRule {
    pub(super) route: Route,
    pub(super) fault: Fault,
    pub(super) n_times: u32,
}

impl FaultRule {
    /// Parses `route:kind[=value][*times]`.
    pub(super) fn parse(words: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{words:?} is not a fault. A fault is ROUTE:KIND[=VALUE][*TIMES], ROUTE one of search, \
                 listing, resolve, blob, any; KIND one of refuse, drop=BYTES, \
                 status=NUMBER[/SECONDS], length=BYTES, wrong, slow=BYTES, silence=BYTES, whole, \
                 change, expire"
            )
        };
        let (route, fault) = words.split_once(':').ok_or_else(bad)?;
        let (fault, n_times) = match fault.split_once('*') {
            Some((fault, n_times)) => (fault, n_times.parse().map_err(|_| bad())?),
            None => (fault, u32::MAX),
        };
        let (kind, value) = fault.split_once('=').unwrap_or((fault, ""));
        let number = || value.parse::<u64>().map_err(|_| bad());
        let route = match route {
            "search" => Route::Search,
            "listing" => Route::Listing,
            "resolve" => Route::Resolve,
            "blob" => Route::Blob,
            "any" => Route::Any,
            _ => return Err(bad()),
        };
        let fault = match kind {
            "refuse" => Fault::Refuse,
            "drop" => Fault::Drop(number()?),
            "status" => {
                let (status, seconds) = value.split_once('/').unwrap_or((value, ""));
                let seconds = match seconds {
                    "" => None,
                    seconds => Some(seconds.parse().map_err(|_| bad())?),
                };
                Fault::Status(status.parse().map_err(|_| bad())?, seconds)
            }
            "length" => Fault::Length(value.parse().map_err(|_| bad())?),
            "wrong" => Fault::WrongBytes,
            "slow" => Fault::Slow(number()?.max(1)),
            "silence" => Fault::Silence(number()?),
            "whole" => Fault::IgnoreRange,
            "change" => Fault::Change,
            "expire" => Fault::ExpireLinks,
            _ => return Err(bad()),
        };
        Ok(Self {
            route,
            fault,
            n_times,
        })
    }
}

/// Takes the fault for a request, if a rule matches.
pub(super) fn take(rules: &mut Vec<FaultRule>, route: Route) -> Option<Fault> {
    let fits = |rule: &FaultRule| rule.route == route || rule.route == Route::Any;
    let at = rules.iter().position(fits)?;
    let rule = &mut rules[at];
    let fault = rule.fault.clone();
    if rule.n_times != u32::MAX {
        rule.n_times = rule.n_times.saturating_sub(1);
        if rule.n_times == 0 {
            rules.remove(at);
        }
    }
    Some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_parsed_from_text() {
        let parse = |words| FaultRule::parse(words).unwrap();
        assert_eq!(
            parse("blob:drop=1000*3"),
            FaultRule {
                route: Route::Blob,
                fault: Fault::Drop(1000),
                n_times: 3
            }
        );
        assert_eq!(parse("any:status=429/2").fault, Fault::Status(429, Some(2)));
        assert_eq!(parse("blob:length=-5").fault, Fault::Length(-5));
        for words in [
            "",
            "blob",
            "blob:",
            "x:drop=1",
            "blob:drop",
            "blob:drop=1*x",
        ] {
            assert!(FaultRule::parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_rule_is_counted_down() {
        let mut rules = vec![
            FaultRule::parse("blob:wrong*2").unwrap(),
            FaultRule::parse("any:refuse").unwrap(),
        ];
        assert_eq!(take(&mut rules, Route::Listing), Some(Fault::Refuse));
        assert_eq!(take(&mut rules, Route::Blob), Some(Fault::WrongBytes));
        assert_eq!(take(&mut rules, Route::Blob), Some(Fault::WrongBytes));
        assert_eq!(take(&mut rules, Route::Blob), Some(Fault::Refuse));
    }
}
