// What ThreadSanitizer does not see by itself: how oneTBB, which is not compiled for it, hands work to a thread and waits for it.
#pragma once

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* what);
extern "C" void __tsan_release(void* what);
#endif

namespace anfora {

// What a thread did before it said happens_before(what) happened before what another one does behind its happens_after(what).
#ifdef __SANITIZE_THREAD__
inline void happens_before(void* what) { __tsan_release(what); }
inline void happens_after(void* what) { __tsan_acquire(what); }
#else
inline void happens_before(void*) {}
inline void happens_after(void*) {}
#endif

}  // namespace anfora
