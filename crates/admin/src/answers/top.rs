//! The hottest paths and clients, and the largest nodes, as JSON. The route checks that its caller is an
//! operator: the answer names paths whatever their ACLs are.

use serde_json::{Value, json};
use zebu_metrics::HotMeasure;
use zebu_server::views::ServerViews;

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

impl TopOrder {
    /// Reads a measure, `nodes`, or nothing for all measures.
    ///
    /// # Errors
    /// A name that is not known, as a text for the caller.
    pub(crate) fn of_name(name: Option<&str>) -> Result<TopOrder, String> {
        match name {
            None => Ok(TopOrder::All),
            Some("nodes") => Ok(TopOrder::Nodes),
            Some(name) => {
                let known = "reads, writes, bytes, watches, requests or nodes";
                HotMeasure::from_name(name).map(TopOrder::By).ok_or_else(|| format!("by must be {known}"))
            }
        }
    }
}

/// The lists, with at most `limit` entries each.
pub(crate) async fn top(views: &ServerViews, order: TopOrder, limit: usize) -> Value {
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
                "perSecond": rounded(entry.per_second),
                "errorPerSecond": rounded(entry.error_per_second),
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
        "bySize": list(&nodes.by_bytes, "bytes"),
        "byChildren": list(&nodes.by_children, "children"),
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
    fn an_order_has_a_known_name() {
        assert_eq!(TopOrder::of_name(None), Ok(TopOrder::All));
        assert_eq!(TopOrder::of_name(Some("writes")), Ok(TopOrder::By(HotMeasure::Writes)));
        assert_eq!(TopOrder::of_name(Some("nodes")), Ok(TopOrder::Nodes));
        assert!(TopOrder::of_name(Some("size")).is_err());
    }
}
