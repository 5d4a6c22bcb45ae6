//! Maps whose pins somebody has removed while no process had them: their program at an interface has them still.

use aya::maps::{MapData, MapInfo};
use aya::programs::loaded_programs;

use crate::balancer::describe;
use crate::error::Error;
use crate::pins::Pins;
use crate::tables::{self, Shape};
use crate::whereabouts;

impl Pins {
    /// The maps that are not pinned here although a program is, which had all of them.
    ///
    /// # Errors
    /// [`Error::Pin`] when the directory cannot be read.
    pub fn removed_maps(&self) -> Result<Vec<&'static str>, Error> {
        if self.links()?.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.unpinned().map(|shape| shape.name).collect())
    }

    /// Pins those maps again that [`removed_maps`](Self::removed_maps) names, as far as the kernel gives them out (to
    /// CAP_SYS_ADMIN alone); how many.
    ///
    /// # Errors
    /// [`Error::Pin`].
    pub fn recover(&self) -> Result<u32, Error> {
        let Some(link) = self.links()?.into_iter().next().filter(|_| !self.is_taken()) else { return Ok(0) };
        let program = whereabouts::program(&link)?;
        let program = loaded_programs().flatten().find(|loaded| loaded.id() == program);
        let ids = program.and_then(|program| program.map_ids().ok().flatten()).unwrap_or_default();
        // Pins of other maps than the program's are of a start that did not end: the two do not go together.
        let is_its = |shape: &Shape| {
            let pinned = MapInfo::from_pin(self.map(shape.name));
            pinned.is_ok_and(|pinned| ids.contains(&pinned.id()))
        };
        if !tables::ALL.iter().filter(|shape| self.map(shape.name).exists()).all(is_its) {
            return Ok(0);
        }
        let mut count = 0;
        for map in ids.into_iter().filter_map(|id| MapData::from_id(id).ok()) {
            let info = map.info().ok();
            let name = info.as_ref().and_then(MapInfo::name_as_str);
            let Some(shape) = self.unpinned().find(|shape| Some(shape.name) == name) else { continue };
            let path = self.map(shape.name);
            map.pin(&path).map_err(|error| Error::Pin { path, reason: describe(&error) })?;
            count += 1;
        }
        Ok(count)
    }

    fn unpinned(&self) -> impl Iterator<Item = &'static Shape> {
        tables::ALL.iter().filter(|shape| !self.map(shape.name).exists())
    }
}
