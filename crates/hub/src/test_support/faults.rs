//! What can go wrong at a hub, as values and as words of a command line.
//!
//! Rule: a fault is of one request. The first rule that fits a request is used and counted down.

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The search.
    Search,
    /// The list of a repository's files.
    Listing,
    /// Where a file lies, and small files themselves.
    Resolve,
    /// Bytes of large files, at the other address.
    Blob,
    /// All of them. Not seen on a request.
    Any,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before any answer.
    Refuse,
    /// The connection ends after so many bytes of the body.
    Drop(u64),
    /// This status, with a `Retry-After` in seconds where one is given.
    Status(u16, Option<u64>),
    /// So many bytes more (or less) are announced and sent than were asked for.
    Length(i64),
    /// One byte is another one.
    WrongBytes,
    /// So many bytes a second.
    Slow(u64),
    /// After so many bytes of the body nothing more comes, and the connection stays.
    Silence(u64),
    /// All of the file, whatever was asked for.
    IgnoreRange,
    /// The file becomes another one just before the answer, under the same commit.
    Change,
    /// All links that were given so far are no longer good.
    ExpireLinks,
    /// This JSON, whatever was asked for. Has no words.
    Answer(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) route: Route,
    pub(super) fault: Fault,
    pub(super) n_times: u32,
}

impl Rule {
    /// Reads `route:kind[=value][*times]`.
    pub(super) fn read(words: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{words:?} is no fault. A fault is ROUTE:KIND[=VALUE][*TIMES], ROUTE one of search, \
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

/// Takes the fault of a request, if one is due.
pub(super) fn take(rules: &mut Vec<Rule>, route: Route) -> Option<Fault> {
    let fits = |rule: &Rule| rule.route == route || rule.route == Route::Any;
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
    fn words_are_faults() {
        let read = |words| Rule::read(words).unwrap();
        assert_eq!(
            read("blob:drop=1000*3"),
            Rule {
                route: Route::Blob,
                fault: Fault::Drop(1000),
                n_times: 3
            }
        );
        assert_eq!(read("any:status=429/2").fault, Fault::Status(429, Some(2)));
        assert_eq!(read("blob:length=-5").fault, Fault::Length(-5));
        for words in [
            "",
            "blob",
            "blob:",
            "x:drop=1",
            "blob:drop",
            "blob:drop=1*x",
        ] {
            assert!(Rule::read(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_rule_is_counted_down() {
        let mut rules = vec![
            Rule::read("blob:wrong*2").unwrap(),
            Rule::read("any:refuse").unwrap(),
        ];
        assert_eq!(take(&mut rules, Route::Listing), Some(Fault::Refuse));
        assert_eq!(take(&mut rules, Route::Blob), Some(Fault::WrongBytes));
        assert_eq!(take(&mut rules, Route::Blob), Some(Fault::WrongBytes));
        assert_eq!(take(&mut rules, Route::Blob), Some(Fault::Refuse));
    }
}
