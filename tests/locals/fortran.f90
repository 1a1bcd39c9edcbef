! Dummy arguments, arrays of run-time size and private variables in regions; a procedure in another.
subroutine stop_here(number)
  implicit none
  integer :: number, threads, arrived
  common /meeting/ threads, arrived
  !$omp atomic
  arrived = arrived + 1
  do
    !$omp flush
    if (arrived >= threads) exit
  end do
  if (number == 0) call tell()
  call rest()
end subroutine

subroutine region(n, a)
  use omp_lib
  implicit none
  integer :: n, i, p, number, threads, arrived
  real(8) :: a(n), s, own(2)
  character(len=4) :: text
  common /meeting/ threads, arrived
  p = 3
  s = 0
  own = [1, 2]
  text = 'abcd'
  !$omp parallel num_threads(threads) private(number, p) firstprivate(own)
  number = omp_get_thread_num()
  call note_number(number)
  p = 5 + number
  own(2) = number
  !$omp do reduction(+:s) schedule(static, 4)
  do i = 1, 4 * threads
    s = s + a(1) * p
    if (mod(i, 4) == 2) then
      call note_integer('region:p', p)
      call note_integer('region:number', number)
      call note_integer('region:i', i)
      call note_real('region:s', s)
      call note_text('region:text', text)
      call inner(number + 40)
    end if
  end do
  !$omp end parallel
  print *, s
contains
  subroutine inner(k)
    integer :: k, twice
    twice = 2 * k + n
    call note_integer('inner:k', k)
    call note_integer('inner:twice', twice)
    call stop_here(number_of(k))
  end subroutine
  integer function number_of(k)
    integer :: k
    number_of = k - 40
  end function
end subroutine

program main
  implicit none
  integer :: threads, arrived
  common /meeting/ threads, arrived
  real(8) :: values(6)
  character(len=8) :: text
  call get_environment_variable('THREADS', text)
  read (text, *) threads
  values = [1, 2, 3, 4, 5, 6]
  call region(6, values)
end program
