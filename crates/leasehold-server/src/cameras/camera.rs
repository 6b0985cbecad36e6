//! A camera's configuration: what is sent, what is kept and what is shown.
//!
//! Kept is the configuration as the document of a resource, its site and its versions as labels. The versions are made of what
//! everybody may see: in place of user and password stands a number that counts their changes, because a hash of a password
//! is nothing to show to somebody who may not know it.

use leasehold::store::Declared;
use leasehold::{MemberName, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::zone::{Zone, check_all, check_labels, check_share};
use super::{credentials, version};

/// The label that tells a camera from other resources.
const CAMERA: &str = "leasehold.camera";
const SITE: &str = "site_id";
const CONFIG: &str = "config_version";
const ZONES: &str = "zone_version";
const CREDENTIALS: &str = "credentials_version";
const DELETING: &str = "leasehold.deleting";

/// The most zones of a camera, and the most capabilities it may ask for.
const ZONES_MAX: usize = 256;
const CAPABILITIES_MAX: usize = 32;
/// The largest picture.
const FRAME_MAX: u32 = 65_536;

/// What keeps a picture in which nothing moves from being looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MotionGating {
    /// Whether it is in use.
    enabled: bool,
    /// By how much pictures are made smaller for it.
    #[schema(minimum = 0, maximum = 1)]
    downscale: f64,
    /// How many pixels must have changed.
    min_area_px: u32,
    /// How many pictures are still looked at afterwards.
    cooldown_frames: u32,
}

impl Default for MotionGating {
    fn default() -> Self {
        Self { enabled: false, downscale: 0.5, min_area_px: 1500, cooldown_frames: 2 }
    }
}

/// Which part of a detection must lie in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub(crate) enum ZoneTest {
    /// Its centre.
    #[default]
    #[serde(rename = "center")]
    Center,
    /// The middle of its lower edge.
    #[serde(rename = "bottom_center")]
    BottomCenter,
    /// As much of it as `iou_threshold` says.
    #[serde(rename = "iou")]
    Iou,
    /// Its centre, and as much of it as `iou_threshold` says.
    #[serde(rename = "center+iou")]
    CenterAndIou,
}

/// A camera's configuration, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Camera {
    /// Where its pictures come from.
    #[schema(example = "rtsp://camera.local/stream", max_length = 2048)]
    pub(super) rtsp_url: String,
    /// Its zones. Those of the site are apart from these.
    #[serde(default)]
    pub(super) zones: Vec<Zone>,
    /// What keeps a picture in which nothing moves from being looked at.
    #[serde(default)]
    pub(super) motion_gating: MotionGating,
    /// What is looked for; empty for everything.
    #[serde(default)]
    pub(super) allow_labels: Vec<String>,
    /// How certain a detection must be.
    #[serde(default = "usual_score")]
    #[schema(minimum = 0, maximum = 1)]
    pub(super) min_score: f64,
    /// Which part of a detection must lie in a zone.
    #[serde(default)]
    pub(super) zone_test: ZoneTest,
    /// How much of it.
    #[serde(default = "usual_iou")]
    #[schema(minimum = 0, maximum = 1)]
    pub(super) iou_threshold: f64,
    /// The picture's width, where it is known: zones must lie inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65536)]
    pub(super) frame_width: Option<u32>,
    /// The picture's height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65536)]
    pub(super) frame_height: Option<u32>,
    /// What a runner must be able to do to have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) capabilities: Vec<String>,
    /// Only runners of this deployment group may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deployment_group: Option<String>,
}

fn usual_score() -> f64 {
    0.3
}

fn usual_iou() -> f64 {
    0.1
}

/// A camera as it is sent: its configuration and where it belongs.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct CameraBody {
    /// Its id, where the path does not say it.
    #[schema(example = "cam-001", min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:@+=-]+$")]
    pub(super) camera_uuid: Option<String>,
    /// Its tenant; the path says it, too.
    pub(super) tenant_id: Option<String>,
    /// Its site; the path says it, too.
    pub(super) site_id: Option<String>,
    #[serde(flatten)]
    #[schema(value_type = Camera)]
    pub(super) rest: serde_json::Map<String, Value>,
}

/// What a configuration consists of.
const FIELDS: [&str; 11] = [
    "rtsp_url",
    "zones",
    "motion_gating",
    "allow_labels",
    "min_score",
    "zone_test",
    "iou_threshold",
    "frame_width",
    "frame_height",
    "capabilities",
    "deployment_group",
];

impl CameraBody {
    /// The configuration, checked. What answers add to it is taken back without a word; anything else that is not known is
    /// refused, because whoever sent it would take it for kept.
    pub(super) fn camera(mut self) -> Result<Camera, String> {
        for added in [CONFIG, ZONES, "deleting", "reserve"] {
            self.rest.remove(added);
        }
        if let Some(unknown) = self.rest.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            return Err(format!("a camera has no field {unknown:?}; it has {}", FIELDS.join(", ")));
        }
        let camera: Camera = serde_json::from_value(Value::Object(self.rest))
            .map_err(|error| format!("the camera cannot be used: {error}"))?;
        camera.check()
    }
}

/// A camera as it is answered.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct CameraForm {
    /// Its id.
    #[schema(example = "cam-001")]
    pub(super) camera_uuid: String,
    /// Its tenant.
    pub(super) tenant_id: String,
    /// Its site.
    pub(super) site_id: String,
    #[serde(flatten)]
    pub(super) camera: Camera,
    /// SHA-256 of the configuration. It changes with everything in it.
    pub(super) config_version: String,
    /// SHA-256 of the zones alone.
    pub(super) zone_version: String,
    /// Whether it goes as soon as whoever holds it has stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) deleting: bool,
    /// Whether another runner has it that should hand it over: it is acquired with `reserve`. Only where cameras are offered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) reserve: bool,
}

impl CameraForm {
    /// The same without credentials.
    pub(super) fn masked(mut self) -> Self {
        self.camera.rtsp_url = credentials::mask(&self.camera.rtsp_url);
        self
    }

    /// The same, as it is offered.
    pub(super) fn offered(mut self, reserve: bool) -> Self {
        self.reserve = reserve;
        self
    }
}

impl Camera {
    fn check(mut self) -> Result<Self, String> {
        credentials::check(&self.rtsp_url)?;
        for (name, side) in [("frame_width", self.frame_width), ("frame_height", self.frame_height)] {
            if side.is_some_and(|side| side == 0 || side > FRAME_MAX) {
                return Err(format!("{name} is from 1 to {FRAME_MAX}"));
            }
        }
        if self.zones.len() > ZONES_MAX {
            return Err(format!("a camera has at most {ZONES_MAX} zones"));
        }
        let frame = self.frame_width.zip(self.frame_height);
        self.zones = check_all(self.zones, frame)?;
        check_labels(&self.allow_labels).map_err(|why| format!("allow_labels: {why}"))?;
        check_share("min_score", Some(self.min_score))?;
        check_share("iou_threshold", Some(self.iou_threshold))?;
        let downscale = self.motion_gating.downscale;
        if !(downscale > 0.0 && downscale <= 1.0) {
            return Err(format!("motion_gating.downscale is {downscale}; give one above 0, at most 1"));
        }
        check_capabilities(&self.capabilities)?;
        if let Some(group) = &self.deployment_group {
            MemberName::new(group)
                .map_err(|error| error.to_string().replacen("member name", "deployment_group", 1))?;
        }
        Ok(self)
    }

    /// Its configuration and the version of its credentials, as the resource that is kept.
    pub(super) fn declare(&self, id: &ResourceId, site: &str, before: Option<&Declared>) -> Declared {
        let counted = before.and_then(|before| before.labels.get(CREDENTIALS)?.parse().ok()).unwrap_or(0_u64);
        let was = before
            .and_then(|before| before.document.as_ref()?.get("rtsp_url")?.as_str().map(credentials::of));
        let count = if was == Some(credentials::of(&self.rtsp_url)) { counted } else { counted + 1 };
        let document = serde_json::to_value(self).unwrap_or_default();
        let mut shown = document.clone();
        shown["rtsp_url"] = credentials::mask(&self.rtsp_url).into();
        shown[CREDENTIALS] = count.into();
        shown[SITE] = site.into();
        let labels = [
            (CAMERA, "1".to_owned()),
            (SITE, site.to_owned()),
            (CONFIG, version::of(&shown)),
            (ZONES, version::of(&json!(self.zones))),
            (CREDENTIALS, count.to_string()),
        ];
        Declared {
            labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            document: Some(document),
            version: before.map(|before| before.version).unwrap_or_default(),
            ..Declared::new(id.clone())
        }
    }
}

/// Whether every capability can be one.
pub(super) fn check_capabilities(capabilities: &[String]) -> Result<(), String> {
    if capabilities.len() > CAPABILITIES_MAX {
        return Err(format!("at most {CAPABILITIES_MAX} capabilities are allowed"));
    }
    for capability in capabilities {
        MemberName::new(capability)
            .map_err(|error| error.to_string().replacen("member name", "capability", 1))?;
    }
    Ok(())
}

/// A resource that is a camera.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a>(&'a Declared);

impl<'a> Kept<'a> {
    /// The camera that a resource is, if it is one and is still there.
    pub(super) fn of(declared: &'a Declared) -> Option<Self> {
        (!declared.removed && Self::was(declared)).then_some(Self(declared))
    }

    /// Whether a resource is, or was, a camera.
    pub(super) fn was(declared: &Declared) -> bool {
        declared.labels.contains_key(CAMERA)
    }

    pub(super) fn id(self) -> &'a ResourceId {
        &self.0.resource
    }

    pub(super) fn declared(self) -> &'a Declared {
        self.0
    }

    fn label(self, name: &str) -> &'a str {
        self.0.labels.get(name).map_or("", String::as_str)
    }

    pub(super) fn site(self) -> &'a str {
        self.label(SITE)
    }

    pub(super) fn config_version(self) -> &'a str {
        self.label(CONFIG)
    }

    pub(super) fn zone_version(self) -> &'a str {
        self.label(ZONES)
    }

    /// Whether it goes as soon as whoever holds it has stopped.
    pub(super) fn is_deleting(self) -> bool {
        self.0.labels.contains_key(DELETING)
    }

    /// The same, to be gone when nobody holds it any more.
    pub(super) fn deleting(self) -> Declared {
        let mut declared = self.0.clone();
        declared.labels.insert(DELETING.to_owned(), "1".to_owned());
        declared
    }

    /// As it is answered, with its credentials.
    pub(super) fn form(self, tenant: &str) -> Option<CameraForm> {
        let camera = serde_json::from_value(self.0.document.clone()?).ok()?;
        Some(CameraForm {
            camera_uuid: self.id().to_string(),
            tenant_id: tenant.to_owned(),
            site_id: self.site().to_owned(),
            camera,
            config_version: self.config_version().to_owned(),
            zone_version: self.zone_version().to_owned(),
            deleting: self.is_deleting(),
            reserve: false,
        })
    }
}

/// Whether a resource is a camera: then it is changed where cameras are.
pub(crate) fn is_camera(declared: &Declared) -> bool {
    Kept::of(declared).is_some()
}

/// A resource's document for somebody who may only look: without a camera's credentials.
pub(crate) fn masked(mut declared: Declared) -> Declared {
    if is_camera(&declared)
        && let Some(address) = declared.document.as_mut().and_then(|document| document.get_mut("rtsp_url"))
    {
        *address = credentials::mask(address.as_str().unwrap_or_default()).into();
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera(value: Value) -> Result<Camera, String> {
        serde_json::from_value::<CameraBody>(value).unwrap().camera()
    }

    fn printed() -> Value {
        json!({
            "camera_uuid": "cam-001", "rtsp_url": "rtsp://camera.local/stream", "tenant_id": "tenant-1", "site_id": "site-1",
            "zones": [{
                "zone_id": 1, "name": "driveway", "kind": "include", "priority": 100,
                "polygon": [[100, 100], [700, 100], [700, 500], [200, 500]],
                "allow_labels": ["person", "car"], "min_score": 0.25
            }],
            "motion_gating": {"enabled": true, "downscale": 0.5, "min_area_px": 1500, "cooldown_frames": 2},
            "allow_labels": ["person", "car", "truck"], "min_score": 0.30, "zone_test": "center", "iou_threshold": 0.10
        })
    }

    // proves R175, R176
    #[test]
    fn the_printed_camera_is_kept_and_shown_as_it_was_sent() {
        let id = ResourceId::new("cam-001").unwrap();
        let kept = camera(printed()).unwrap().declare(&id, "site-1", None);
        let form = Kept::of(&kept).unwrap().form("tenant-1").unwrap();
        let mut shown = serde_json::to_value(form).unwrap();
        for added in ["config_version", "zone_version"] {
            let version = shown.as_object_mut().unwrap().remove(added).unwrap();
            assert_eq!(version.as_str().unwrap().len(), 64);
        }
        // Polygons are numbers; 100 and 100.0 are the same.
        assert_eq!(version::of(&shown), version::of(&printed()), "{shown}");
    }

    // proves U23, R232
    #[test]
    fn a_version_follows_the_content_and_never_the_password_itself() {
        let id = ResourceId::new("cam-001").unwrap();
        let with = |url: &str| {
            let mut body = printed();
            body["rtsp_url"] = url.into();
            camera(body).unwrap()
        };
        let version = |kept: &Declared| Kept::of(kept).unwrap().config_version().to_owned();
        let first = with("rtsp://u:one@h/s").declare(&id, "s", None);
        let same = with("rtsp://u:one@h/s").declare(&id, "s", Some(&first));
        let other = with("rtsp://u:two@h/s").declare(&id, "s", Some(&first));
        assert_eq!(version(&first), version(&same));
        assert_ne!(version(&first), version(&other), "another password is another configuration");
        // Who knows all but the password cannot try passwords against the version.
        let guessed = with("rtsp://u:three@h/s").declare(&id, "s", None);
        assert_eq!(version(&first), version(&guessed));
        assert!(!serde_json::to_string(&masked(other).document).unwrap().contains("two"));
    }

    // proves R175, R176
    #[test]
    fn what_cannot_be_a_camera_is_refused_with_a_sentence() {
        let changed = |at: &str, value: Value| {
            let mut body = printed();
            *body.pointer_mut(at).unwrap() = value;
            camera(body).expect_err(at)
        };
        assert!(changed("/min_score", json!(1.5)).contains("0 to 1"));
        assert!(changed("/iou_threshold", json!(-1)).contains("0 to 1"));
        assert!(changed("/zones/0/min_score", json!(2)).contains("zone 1"));
        assert!(changed("/zones/0/kind", json!("maybe")).contains("include"));
        assert!(changed("/zones/0/polygon", json!([[1, 1], [2, 2]])).contains("at least three"));
        assert!(changed("/allow_labels", json!([1])).contains("string"));
        assert!(changed("/allow_labels", json!(["Person!"])).contains("no label"));
        assert!(changed("/zone_test", json!("corner")).contains("center"));
        assert!(changed("/rtsp_url", json!("http://h/")).contains("rtsp://"));
        assert!(changed("/motion_gating/downscale", json!(0)).contains("above 0"));
        let mut body = printed();
        body["zones"] = json!([body["zones"][0], body["zones"][0]]);
        assert!(camera(body).expect_err("twice").contains("two zones 1"));
        let mut body = printed();
        body["rtsp_uri"] = json!("x");
        assert!(camera(body).expect_err("a typo").contains("rtsp_uri"));
        let mut body = printed();
        (body["frame_width"], body["frame_height"]) = (json!(640), json!(480));
        assert!(camera(body).expect_err("outside").contains("outside the picture"));
    }
}
