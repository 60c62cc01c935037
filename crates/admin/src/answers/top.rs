//! The hottest paths and clients, and the largest nodes, as JSON. The route checks that its caller is an
//! operator: the answer names paths whatever their ACLs are.

#![allow(dead_code, reason = "the route of another module calls it")]

use serde_json::{Value, json};
use zebu_metrics::HotMeasure;
use zebu_server::views::{ServerViews, TOP_ENTRIES_MAX};

use crate::query::first_value;

/// What a caller wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopParameters {
    pub(crate) order: TopOrder,
    /// Entries per list.
    pub(crate) limit: usize,
}

/// The order of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopOrder {
    /// All measures of requests.
    All,
    /// One measure of requests.
    By(HotMeasure),
    /// The nodes with the most data and the most children; a walk over the tree.
    Nodes,
}

impl TopParameters {
    /// Reads `by` and `limit` of a query string. `by` is a measure, `nodes`, or absent for all measures.
    ///
    /// # Errors
    /// A value that is not known, as a text for the caller.
    pub(crate) fn from_query(query: Option<&str>) -> Result<TopParameters, String> {
        let order = match first_value(query, "by").as_deref() {
            None => TopOrder::All,
            Some("nodes") => TopOrder::Nodes,
            Some(name) => {
                let measure = HotMeasure::from_name(name);
                let known = "reads, writes, bytes, watches, requests or nodes";
                TopOrder::By(measure.ok_or_else(|| format!("by is {known}"))?)
            }
        };
        let limit = match first_value(query, "limit") {
            None => TOP_ENTRIES_MAX,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=TOP_ENTRIES_MAX).contains(limit))
                .ok_or_else(|| format!("limit is a number from 1 to {TOP_ENTRIES_MAX}"))?,
        };
        Ok(TopParameters { order, limit })
    }
}

/// The lists.
pub(crate) async fn top(views: &ServerViews, parameters: TopParameters) -> Value {
    let TopParameters { order, limit } = parameters;
    let measures = match order {
        TopOrder::All => HotMeasure::ALL.to_vec(),
        TopOrder::By(measure) => vec![measure],
        TopOrder::Nodes => return largest_nodes(views, limit).await,
    };
    let top = views.top(&measures, limit);
    let mut by = serde_json::Map::new();
    for table in &top.tables {
        let entries = table.entries.iter().map(|entry| {
            json!({
                "key": entry.key,
                "per_second": rounded(entry.per_second),
                "error_per_second": rounded(entry.error_per_second),
            })
        });
        let lists = by.entry(table.measure.name()).or_insert_with(|| json!({}));
        lists[table.subject.name()] = Value::Array(entries.collect());
    }
    json!({ "sampling": top.sample_every, "by": by })
}

async fn largest_nodes(views: &ServerViews, limit: usize) -> Value {
    let nodes = views.largest_nodes().await;
    let list = |list: &[(u64, String)], number: &str| -> Value {
        list.iter().take(limit).map(|(amount, path)| json!({ "path": path, number: amount })).collect()
    };
    json!({
        "complete": nodes.is_complete,
        "visited": nodes.visited,
        "by_size": list(&nodes.by_bytes, "bytes"),
        "by_children": list(&nodes.by_children, "children"),
    })
}

/// One digit after the point is more than the estimate knows.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let all = TopParameters { order: TopOrder::All, limit: TOP_ENTRIES_MAX };
        assert_eq!(TopParameters::from_query(None), Ok(all));
        let writes = TopParameters { order: TopOrder::By(HotMeasure::Writes), limit: 3 };
        assert_eq!(TopParameters::from_query(Some("by=writes&limit=3")), Ok(writes));
        assert_eq!(TopParameters::from_query(Some("by=nodes")).map(|found| found.order), Ok(TopOrder::Nodes));
        for wrong in ["by=size", "limit=0", "limit=51", "limit=x"] {
            assert!(TopParameters::from_query(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
