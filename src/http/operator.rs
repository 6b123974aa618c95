//! The endpoints of the operators: health, readiness, metrics, one look at the pool, its assignments, a page.
//!
//! All of them only read.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, Query, ServiceConfig};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::{HttpError, only};
use super::operator_auth::{OperatorAuth, require_token};
use crate::actors::{Pool, Scope};
use crate::domain::{BoardSlug, RunId, RunKey, TaskId};
use crate::store::{PageStart, Record, StoreError};

/// The text format that Prometheus asks for.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Assignments on one page, unless asked otherwise.
const PAGE_DEFAULT: u32 = 100;
/// Assignments on one page at most.
const PAGE_LIMIT: u32 = 1000;
/// How a page begins after a row that has no name. No board has a colon in its own.
const ROW: &str = "row:";
/// The page for people.
const PAGE: &str = include_str!("page.html");

/// Adds the operator endpoints.
pub fn operator_routes(
    pool: Pool,
    auth: OperatorAuth,
) -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    move |config| {
        let auth = auth.clone();
        config.app_data(Data::new(pool.clone()));
        config.service(
            web::resource("/healthz")
                .get(health)
                .default_service(only("GET")),
        );
        config.service(
            web::scope("")
                .wrap(from_fn(move |request, next| {
                    require_token(auth.clone(), request, next)
                }))
                .service(web::resource("/").get(page).default_service(only("GET")))
                .service(
                    web::resource("/readyz")
                        .get(readiness)
                        .default_service(only("GET")),
                )
                .service(
                    web::resource("/metrics")
                        .get(metrics)
                        .default_service(only("GET")),
                )
                .service(
                    web::resource("/api/v1/pool")
                        .get(snapshot)
                        .default_service(only("GET")),
                )
                .service(
                    web::resource("/api/v1/assignments")
                        .get(assignments)
                        .default_service(only("GET")),
                ),
        );
    }
}

async fn health() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok" }))
}

async fn readiness(pool: Data<Pool>) -> HttpResponse {
    let reasons = pool.reasons();
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    HttpResponse::build(status).json(json!({ "ready": reasons.is_empty(), "reasons": reasons }))
}

async fn metrics(pool: Data<Pool>) -> Result<HttpResponse, HttpError> {
    let gauges = pool.gauges().await;
    let text = pool
        .metrics()
        .render(&gauges)
        .map_err(|_| HttpError::Internal)?;
    Ok(HttpResponse::Ok().content_type(METRICS_TYPE).body(text))
}

async fn snapshot(pool: Data<Pool>) -> Result<HttpResponse, HttpError> {
    let snapshot = told(&pool, pool.snapshot().await)?;
    Ok(HttpResponse::Ok().json(snapshot))
}

async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type(ContentType::html())
        .body(PAGE)
}

/// Which assignments are asked for: those after a key, in its order.
#[derive(Debug, Deserialize)]
struct PageQuery {
    after: Option<String>,
    limit: Option<u32>,
}

/// One assignment, as operators see it. Times are seconds since the epoch.
#[derive(Debug, Serialize)]
struct AssignmentView {
    board: String,
    task: String,
    run: String,
    ordinal: u16,
    attempt: i64,
    state: &'static str,
    cause: Option<&'static str>,
    lease_until: Option<f64>,
    last_heartbeat: Option<f64>,
    created_at: f64,
    updated_at: f64,
}

impl AssignmentView {
    fn of(record: &Record) -> Self {
        let binding = record.assignment.binding();
        Self {
            board: binding.key.board.as_str().to_owned(),
            task: binding.key.task.as_str().to_owned(),
            run: binding.key.run.as_str().to_owned(),
            ordinal: binding.ordinal.0,
            attempt: binding.attempt.0,
            state: record.assignment.state().as_str(),
            cause: record.claim.cause.map(|cause| cause.as_str()),
            lease_until: Some(record.lease_until.0).filter(|time| *time > 0.0),
            last_heartbeat: Some(record.last_heartbeat.0).filter(|time| *time > 0.0),
            created_at: record.created_at.0,
            updated_at: record.updated_at.0,
        }
    }
}

async fn assignments(pool: Data<Pool>, query: Query<PageQuery>) -> Result<HttpResponse, HttpError> {
    let after = match query.after.as_deref() {
        None => PageStart::First,
        Some(text) => parse_start(text).ok_or(HttpError::BadQuery)?,
    };
    let limit = query.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_LIMIT);
    let page = pool
        .readers()
        .read(move |reader| reader.page(&after, limit))
        .await;
    let page = told(&pool, page)?;
    let (mut views, mut illegal) = (Vec::new(), Vec::new());
    for row in page.rows {
        match row {
            Ok(record) => views.push(AssignmentView::of(&record)),
            Err(row) => illegal.push(row.to_string()),
        }
    }
    let next = page.next.as_ref().map(show_start);
    Ok(HttpResponse::Ok().json(json!({ "assignments": views, "illegal": illegal, "next": next })))
}

/// Where a page begins: after a run, as `board/task/run`, or after a row without such a name, as `row:number`.
fn parse_start(text: &str) -> Option<PageStart> {
    if let Some(number) = text.strip_prefix(ROW) {
        return Some(PageStart::Row(number.parse().ok()?));
    }
    let mut parts = text.splitn(3, '/');
    Some(PageStart::Run(RunKey {
        board: BoardSlug::parse(parts.next()?).ok()?,
        task: TaskId::parse(parts.next()?).ok()?,
        run: RunId::parse(parts.next()?).ok()?,
    }))
}

/// The same as it is asked for.
fn show_start(start: &PageStart) -> String {
    match start {
        PageStart::First => String::new(),
        PageStart::Run(key) => key.to_string(),
        PageStart::Row(number) => format!("{ROW}{number}"),
    }
}

/// Has the ledger tell why the store cannot be read, once for all who ask.
fn told<T>(pool: &Pool, read: Result<T, StoreError>) -> Result<T, HttpError> {
    const WHAT: &str = "answer operators";
    match &read {
        Ok(_) => pool.ledger().clear(Scope::Store, WHAT),
        Err(error) => {
            let (why, now) = (error.to_string(), pool.clock().now());
            pool.ledger().defer(Scope::Store, WHAT, why, now, None);
        }
    }
    read.map_err(|_| HttpError::StoreUnreadable)
}
