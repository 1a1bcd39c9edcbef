module m
  implicit none
  integer :: mi = 3
  integer, save :: mtp = 4
  !$omp threadprivate(mtp)
  real(8) :: arr2(2,3) = reshape([1d0,2d0,3d0,4d0,5d0,6d0],[2,3])
  integer, allocatable :: al(:), al0(:), al2(:,:)
  !$omp threadprivate(al)
  integer, pointer :: pp(:) => null(), ps => null()
  integer, target :: tgt(10) = [1,2,3,4,5,6,7,8,9,10]
  type pt
    integer :: x = 1
    real :: y = 2.5
    character(len=4) :: c = 'abcd'
    integer :: a(2) = [7,8]
  end type
  type, extends(pt) :: pt3
    logical :: l = .true.
  end type
  type(pt) :: p1
  type(pt3) :: p3
  type(pt), allocatable :: ap
  class(pt), allocatable :: cp
  integer(1) :: i1=-1; integer(2)::i2=-2; integer(8)::i8=123456789012345_8; integer(16)::i16=-7
  real(4)::r4=0.1; real(8)::r8=0.1d0; real(10)::r10=0.1; real(16)::r16=0.1
  complex(4)::c4=(1.0,2.5); complex(8)::c8=(0.1d0,-1d0)
  logical::lt=.true.; logical(1)::l1=.false.; logical(8)::l8=.true.
  character(len=5)::ch='hello'; character::c1='x'; character(len=:),allocatable::cd; character(len=3)::ca(2)=['abc','def']
  character(kind=4,len=3)::cw=4_'xyz'
  integer :: lb(-1:1) = [10,20,30]
  integer :: z3(2,2,2) = reshape([1,2,3,4,5,6,7,8],[2,2,2])
  integer :: zz(300)=0
  integer, parameter :: par=42
end module
subroutine sub()
  integer, save :: cnt = 5
  integer :: ci, cj(3)
  real :: cr
  common /blk/ ci, cj, cr
  !$omp threadprivate(/blk/)
  integer :: ni
  common /nblk/ ni
  integer :: bi
  common bi
  ci=11; cj=[1,2,3]; cr=1.5; ni=22; bi=33
  cnt=cnt+1
end subroutine
program main
  use m
  implicit none
  integer :: ci, cj(3)
  real :: cr
  common /blk/ ci, cj, cr
  !$omp threadprivate(/blk/)
  allocate(al(4)); al=[1,2,3,4]; allocate(al2(2,2)); al2=reshape([1,2,3,4],[2,2])
  pp => tgt(1:9:2); ps => tgt(3); allocate(ap); allocate(pt3::cp); cd='deferred'
  call sub()
  call abort()
end program
