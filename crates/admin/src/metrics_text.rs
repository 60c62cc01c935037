//! The metrics for HTTP: the text of the exporter, and the values of `/commands/monitor`. Both come from the
//! registry of metrics.

use zebu_metrics::{MetricValue, monitor_values as values_of, prometheus_text};
use zebu_server::views::ServerViews;

use crate::json::Json;

/// The samples with these names, or all of them without names; `None` if the server is ending.
pub(crate) async fn exporter_text(views: &ServerViews, names: &[String]) -> Option<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(prometheus_text(&views.metrics().await?, &names))
}

/// The values of `/commands/monitor`; `None` if the server serves no clients.
pub(crate) async fn monitor_values(views: &ServerViews) -> Option<Vec<(String, Json)>> {
    views.serving_mode()?;
    let view = views.metrics().await?;
    let json = |value| match value {
        MetricValue::Integer(value) => Json::Integer(value),
        MetricValue::Decimal(value) => Json::Decimal(value),
        MetricValue::Text(value) => Json::text(value),
    };
    Some(values_of(&view).into_iter().map(|(name, value)| (name.into_owned(), json(value))).collect())
}
