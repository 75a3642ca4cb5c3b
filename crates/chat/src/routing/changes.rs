//! The routes with the changes that the user made in the settings.

use std::collections::{BTreeMap, BTreeSet};

use transom_engine::{Route, RouteSettings};
use transom_store::{RouteChanges, RouteThinking};

/// What each route changes in a request: the built-in values, and those of the user in place of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Routes {
    changed: BTreeMap<Route, RouteSettings>,
    off: BTreeSet<Route>,
}

impl Routes {
    /// Returns the routes with these changes, by the name of the route. A name that this version does not
    /// know has no effect, and [`Route::Chat`] can't be changed.
    pub fn with(changes: &BTreeMap<String, RouteChanges>) -> Self {
        let named = changes.iter().filter_map(|(name, changes)| {
            let route = Route::named(name).filter(|route| *route != Route::Chat)?;
            Some((route, changes))
        });
        let off = named.clone().filter(|(_, changes)| changes.is_off);
        Self {
            off: off.map(|(route, _)| route).collect(),
            changed: named
                .map(|(route, changes)| (route, changed(route.settings(), changes)))
                .collect(),
        }
    }

    /// Returns what a route changes.
    pub fn settings(&self, route: Route) -> &RouteSettings {
        self.changed.get(&route).unwrap_or_else(|| route.settings())
    }

    /// Returns `route`, or [`Route::Chat`] if the user turned it off.
    pub fn or_chat(&self, route: Route) -> Route {
        match self.off.contains(&route) {
            true => Route::Chat,
            false => route,
        }
    }
}

fn changed(built_in: &RouteSettings, changes: &RouteChanges) -> RouteSettings {
    let changes = changes.clone();
    let built_in = built_in.clone();
    // The built-in temperatures are for responses without reasoning.
    let may_reason = matches!(
        changes.thinking,
        Some(RouteThinking::On | RouteThinking::Model)
    );
    let temperature = built_in.temperature.filter(|_| !may_reason);
    RouteSettings {
        instructions: changes.instructions.unwrap_or(built_in.instructions),
        temperature: changes.temperature.or(temperature),
        thinking: match changes.thinking {
            None => built_in.thinking,
            Some(RouteThinking::On) => Some(true),
            Some(RouteThinking::Off) => Some(false),
            Some(RouteThinking::Model) => None,
        },
        // All earlier messages are more than a share of the context that is counted in bytes.
        history: changes
            .history
            .or(built_in.history)
            .filter(|share| *share < 1.0),
        attached: changes
            .attached
            .or(built_in.attached)
            .filter(|share| *share < 1.0),
        reserve_context: changes.reserve.or(built_in.reserve_context),
        reserve_text: built_in.reserve_text.filter(|_| changes.reserve.is_none()),
        is_sticky: built_in.is_sticky,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, changes: RouteChanges) -> Routes {
        Routes::with(&[(name.to_owned(), changes)].into())
    }

    #[test]
    fn without_changes_every_route_is_the_built_in_one() {
        for route in Route::ALL {
            let unchanged = one(route.name(), RouteChanges::default());
            for routes in [&Routes::default(), &unchanged] {
                assert_eq!(routes.settings(route), route.settings());
                assert_eq!(routes.or_chat(route), route);
            }
        }
        let unknown = RouteChanges {
            is_off: true,
            ..RouteChanges::default()
        };
        assert_eq!(one("sing", unknown.clone()), Routes::default());
        assert_eq!(one("chat", unknown), Routes::default());
    }

    #[test]
    fn only_what_the_user_changed_differs() {
        let changes = RouteChanges {
            temperature: Some(0.9),
            thinking: Some(RouteThinking::Model),
            reserve: Some(0.25),
            history: Some(1.0),
            attached: Some(1.0),
            ..RouteChanges::default()
        };
        let expected = RouteSettings {
            temperature: Some(0.9),
            thinking: None,
            reserve_context: Some(0.25),
            reserve_text: None,
            history: None,
            attached: None,
            ..Route::Translate.settings().clone()
        };
        let routes = one("translate", changes);
        assert_eq!(*routes.settings(Route::Translate), expected);
        assert_eq!(routes.settings(Route::Rewrite), Route::Rewrite.settings());
    }

    #[test]
    fn the_built_in_temperature_is_not_for_a_model_that_may_reason() {
        for (thinking, expected) in [
            (RouteThinking::On, None),
            (RouteThinking::Model, None),
            (RouteThinking::Off, Route::Translate.settings().temperature),
        ] {
            let changes = RouteChanges {
                thinking: Some(thinking),
                ..RouteChanges::default()
            };
            let routes = one("translate", changes);
            assert_eq!(routes.settings(Route::Translate).temperature, expected);
        }
    }

    #[test]
    fn a_route_that_is_off_is_plain_chat() {
        let off = RouteChanges {
            is_off: true,
            ..RouteChanges::default()
        };
        let routes = one("code", off);
        assert_eq!(routes.or_chat(Route::Code), Route::Chat);
        assert_eq!(routes.or_chat(Route::Extract), Route::Extract);
    }
}
