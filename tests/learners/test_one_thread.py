import threading

from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: F401  # whose OpenMP is looked at
from threadpoolctl import threadpool_info, threadpool_limits

from fedct_flwr.learners.one_thread import one_thread


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info()}


def test_libraries_have_one_thread_while_it_lasts_and_then_what_they_had() -> None:
    with threadpool_limits(3):
        with one_thread():
            assert threads() == {1}
        assert threads() == {3}


def test_another_thread_has_a_limit_of_its_own_in_openmp() -> None:
    found = []

    def work() -> None:
        with threadpool_limits(3, user_api="openmp"), one_thread():
            found.append(threads())

    with one_thread():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [{1}]
