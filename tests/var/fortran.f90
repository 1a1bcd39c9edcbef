! Every thread gives its copies values of its own, says where they are, and rests.
module m
  implicit none
  integer, save :: mtp = 4
  real(8), save :: mreal = 0.5d0
  complex(8), save :: mcomplex = (1d0, -2d0)
  logical, save :: mlogical = .false.
  character(len=6), save :: mtext = 'before'
  integer, save :: mthree(-1:1) = [10, 20, 30]
  integer, save, allocatable :: mal(:)
  integer :: shared = 7
  !$omp threadprivate(mtp, mreal, mcomplex, mlogical, mtext, mthree, mal)
end module

subroutine count_calls()
  implicit none
  integer, save :: calls = 100
  !$omp threadprivate(calls)
  calls = calls + 1
  call note_integer('count_calls::calls', calls)
end subroutine

program main
  use m
  use omp_lib
  implicit none
  integer :: number, threads, first, three(3)
  real(8) :: last
  character(len=8) :: text
  common /block/ first, three, last
  !$omp threadprivate(/block/)
  integer :: plain
  common /ordinary/ plain
  first = 1
  three = [1, 2, 3]
  last = 0.25d0
  plain = 55
  call get_environment_variable('THREADS', text)
  read (text, *) threads
  !$omp parallel num_threads(threads) private(number) copyin(/block/)
  number = omp_get_thread_num()
  call note_number(number)
  mtp = mtp + number
  mreal = mreal * number
  mcomplex = mcomplex + cmplx(number, number, 8)
  mlogical = mod(number, 2) == 1
  write (mtext, '(a, i5.5)') 't', number
  mthree(0) = number
  first = first + 100 * number
  three(2) = -number
  last = last + number
  allocate (mal(3))
  mal = [number, 2, 3]
  call note_integer('m::mtp', mtp)
  call note_real('m::mreal', mreal)
  call note_complex('m::mcomplex', mcomplex)
  call note_logical('m::mlogical', mlogical)
  call note_text('m::mtext', mtext)
  call note_three('m::mthree', mthree)
  call note_three('m::mal', mal)
  call note_integer('m::shared', shared)
  call note_integer('/block/first', first)
  call note_three('/block/three', three)
  call note_real('/block/last', last)
  call note_integer('/ordinary/plain', plain)
  call count_calls()
  !$omp barrier
  if (number == 0) call tell()
  call rest()
  !$omp end parallel
end program
