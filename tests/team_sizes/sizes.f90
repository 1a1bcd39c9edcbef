! The scenarios of sizes.h in Fortran.
program sizes
    use omp_lib
    implicit none
    interface
        subroutine pause_thread() bind(c, name="pause")
        end subroutine
    end interface
    integer :: arrived = 0
    character(len=32) :: name
    call get_command_argument(1, name)
    select case (name)
    case ("constant")
        call constant()
    case ("variable")
        call variable(3)
    case ("no_clause")
        call no_clause()
    end select
contains
    subroutine wait_for_ever(requested)
        integer, intent(in) :: requested
        integer :: count
        !$omp atomic capture
        arrived = arrived + 1
        count = arrived
        !$omp end atomic
        if (count == omp_get_num_threads()) then
            print "(i0,1x,i0)", requested, omp_get_num_threads()
            flush (6)
        end if
        do
            call pause_thread()
        end do
    end subroutine

    subroutine constant()
        !$omp parallel num_threads(3)
        call wait_for_ever(3)
        !$omp end parallel
    end subroutine

    subroutine variable(threads)
        integer, intent(in) :: threads
        !$omp parallel num_threads(threads)
        call wait_for_ever(3)
        !$omp end parallel
    end subroutine

    subroutine no_clause()
        call omp_set_num_threads(3)
        !$omp parallel
        call wait_for_ever(3)
        !$omp end parallel
    end subroutine
end program
