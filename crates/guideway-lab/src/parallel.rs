//! Work spread over cores, with results in the order of the work.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How an experiment is carried out; none of it changes a figure.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// Threads to work with; `None` is one a core.
    pub threads: Option<NonZeroUsize>,
    /// Is told how many pieces of the work, of how many, are done. It is called from all threads.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Default for Execution<'_> {
    /// All cores, and nobody is told.
    fn default() -> Self {
        Self { threads: None, progress: &|_, _| {} }
    }
}

impl Execution<'_> {
    /// `work` on each of `jobs`. The results are in the order of the jobs, whoever did them and when.
    ///
    /// # Errors
    /// The error of the first job, in their order, that failed. The others are left once one fails.
    pub(crate) fn run<J: Sync, T: Send, E: Send>(
        &self,
        jobs: &[J],
        work: impl Fn(&J) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let cores =
            self.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = Mutex::new(Vec::with_capacity(jobs.len()));
        let worker = || {
            loop {
                // Jobs are taken in order, so whatever comes before a failed one has been begun and will end.
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(number) else { return };
                let result = work(job);
                if result.is_err() {
                    next.store(jobs.len(), Ordering::Relaxed);
                }
                results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((number, result));
                (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
            }
        };
        thread::scope(|scope| {
            for _ in 1..cores.min(jobs.len()) {
                scope.spawn(worker);
            }
            worker();
        });
        let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        results.sort_unstable_by_key(|&(number, _)| number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_threads<'a>(threads: usize) -> Execution<'a> {
        Execution { threads: NonZeroUsize::new(threads), ..Execution::default() }
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs_whatever_the_number_of_threads() {
        let jobs: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            let squares = with_threads(threads).run(&jobs, |job| Ok::<_, ()>(job * job)).unwrap();
            assert!(squares.iter().zip(0u64..).all(|(&square, job)| square == job * job));
            assert_eq!(squares.len(), 100);
        }
        assert_eq!(with_threads(3).run(&[(); 0], |()| Ok::<_, ()>(())), Ok(vec![]));
    }

    #[test]
    fn the_first_failure_in_order_is_told() {
        let jobs: Vec<u64> = (0..50).collect();
        for threads in [1, 4] {
            let refused = with_threads(threads).run(&jobs, |&job| if job >= 20 { Err(job) } else { Ok(job) });
            assert_eq!(refused, Err(20));
        }
    }

    #[test]
    fn progress_counts_every_job_once() {
        let told = Mutex::new(Vec::new());
        let execution = Execution {
            threads: NonZeroUsize::new(3),
            progress: &|done, of| told.lock().unwrap().push((done, of)),
        };
        execution.run(&[1, 2, 3, 4], |_| Ok::<_, ()>(())).unwrap();
        let mut told = told.into_inner().unwrap();
        told.sort_unstable();
        assert_eq!(told, [(1, 4), (2, 4), (3, 4), (4, 4)]);
    }
}
